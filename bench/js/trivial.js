console.log("wasm", 6 * 7)
