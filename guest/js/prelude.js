// Runs once, in a script of its own, before the engine's memory is frozen; what it sets up is the same in every run.
(function () {
    "use strict";

    const hidden = (object, name, value) =>
        Object.defineProperty(object, name, {value, writable: true, enumerable: false, configurable: true});

    // Only now(): the engine's timeOrigin cannot be deleted and would suggest a wall clock.
    globalThis.performance = {now: performance.now};

    if (typeof Intl !== "undefined")
        return;

    // The built-ins as they are now: what a snippet does to them later must not reach the formatter.
    const {Number, String} = globalThis;
    const {abs, max} = Math;
    const {isFinite} = Number;
    const call = Function.prototype.call;
    const uncurry = (f) => call.bind(f);
    const toFixed = uncurry(Number.prototype.toFixed);
    const indexOf = uncurry(String.prototype.indexOf);
    const padEnd = uncurry(String.prototype.padEnd);
    const slice = uncurry(String.prototype.slice);
    const own = Object.assign;

    const symbols = own(Object.create(null), {
        USD: "$", CAD: "$", AUD: "$", EUR: "\u20ac", GBP: "\u00a3", JPY: "\u00a5", CNY: "\u00a5", INR: "\u20b9",
    });

    function symbolOf(code) {
        if (code === undefined || code === null || code === "")
            return "";
        return symbols[code] ?? code + " ";
    }

    // Fraction digits beyond the minimum go when they are zeros.
    function trim(fraction, minimum) {
        let end = fraction.length;
        while (end > minimum && fraction[end - 1] === "0")
            end--;
        return slice(fraction, 0, end);
    }

    function group(digits) {
        let text = "";
        for (let end = digits.length; end > 0; end -= 3)
            text = slice(digits, max(0, end - 3), end) + (text === "" ? "" : "," + text);
        return text;
    }

    function format(value, options) {
        const o = options ?? {};
        const currency = o.style === "currency";
        const minimum = o.minimumFractionDigits ?? (currency ? 2 : 0);
        const maximum = o.maximumFractionDigits ?? (currency ? max(minimum, 2) : 3);
        const n = Number(value);
        if (!isFinite(n))
            return String(value);

        let text = toFixed(abs(n), maximum);
        if (indexOf(text, "e") >= 0)
            return (n < 0 ? "-" : "") + text;
        let whole = text, fraction = "";
        const point = indexOf(text, ".");
        if (point >= 0) {
            whole = slice(text, 0, point);
            fraction = slice(text, point + 1);
        }
        if (maximum > minimum)
            fraction = padEnd(trim(fraction, minimum), minimum, "0");
        text = group(whole) + (fraction === "" ? "" : "." + fraction);
        return (n < 0 ? "-" : "") + (currency ? symbolOf(o.currency) : "") + text;
    }

    class NumberFormat {
        #options;

        constructor(locale, options) {
            this.#options = own({}, options);
        }

        // A getter of a bound function, as the standard has it: `values.map(f.format)` works.
        get format() {
            return (value) => format(value, this.#options);
        }

        resolvedOptions() {
            return own({locale: "en-US"}, this.#options);
        }
    }

    hidden(globalThis, "Intl", {});
    hidden(Intl, "NumberFormat", NumberFormat);
    hidden(Number.prototype, "toLocaleString", {
        toLocaleString(locale, options) {
            return format(this, options);
        },
    }.toLocaleString);
})();
