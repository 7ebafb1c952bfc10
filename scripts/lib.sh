# Sourced by the scripts beside it: how a stage is announced, and where its output goes.
# A stage prints one line; what its commands say is kept in build/log and shown only when one fails.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$root/build/log
shown_lines=30 # of a failed command's output
# Debian's own compilers and Python, whatever a version manager has put before them.
PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH

stage() {
    printf '==> %s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Shows the newest line of log file $2 until process $1 ends, on one line of the terminal.
show_progress() {
    local width start=$SECONDS line
    width=$(tput cols 2>/dev/null || echo 80)
    while kill -0 "$1" 2>/dev/null; do
        line=$(tail -n 1 "$2" 2>/dev/null | tr -cd '[:print:]')
        line="    $((SECONDS - start)) s  $line"
        printf '\r\033[K%s' "${line:0:width-1}"
        sleep 0.5
    done
    printf '\r\033[K'
}

# quietly NAME COMMAND...: runs the command with its output in build/log/NAME.log; a failure shows the tail.
quietly() {
    local log=$logs/$1.log status=0 pid
    shift
    mkdir -p "$logs"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    if [ -t 1 ]; then
        show_progress "$pid" "$log"
    fi
    wait "$pid" || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n "$shown_lines" "$log" >&2
        printf 'error: "%s" failed with status %d; the whole output is in %s\n' "$*" "$status" "$log" >&2
    fi
    return "$status"
}

# The files of the repository that match the patterns, tracked or about to be, one a line.
our_files() {
    git -C "$root" ls-files --cached --others --exclude-standard --deduplicate -- "$@" | while IFS= read -r file; do
        if [ -f "$root/$file" ]; then
            echo "$file"
        fi
    done
}
