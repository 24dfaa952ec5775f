# Sourced by the scripts here: runs suites, keeps their times, prints them at the end.

suite_names=()
suite_seconds=()

suite() { # NAME COMMAND...
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    if ! "$@"; then
        printf '\n== FAILED: %s, after %d s\n' "$name" "$((SECONDS - start))" >&2
        exit 1
    fi
    suite_names+=("$name")
    suite_seconds+=("$((SECONDS - start))")
}

suite_times() {
    local i
    printf '\n%-34s %8s\n' suite seconds
    for i in "${!suite_names[@]}"; do
        printf '%-34s %8d\n' "${suite_names[$i]}" "${suite_seconds[$i]}"
    done
}
