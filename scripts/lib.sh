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

# Runs cargo's tests; fails, too, when its filter has matched none, or, with --exact, fewer than are named: one of several that has another name by now
# would not be missed.
some_tests() { # COMMAND...
    local said status=0 passed named
    said=$(mktemp)
    "$@" | tee "$said" || status=1
    if [ "$status" -eq 0 ]; then
        passed=$(awk '/^test result: ok\. / { sum += $4 } END { print sum + 0 }' "$said")
        named=$(named_tests "$@")
        if [ "$passed" -lt "$named" ]; then
            if [ "$passed" -eq 0 ]; then
                echo "no test ran: $*" >&2
            else
                echo "$passed of the $named tests that are named ran: $*" >&2
            fi
            status=1
        fi
    fi
    rm -f "$said"
    return "$status"
}

# How many tests a command of cargo has to run: as many as it names by --exact, else any.
named_tests() { # COMMAND...
    local word told='' exact='' value='' names=0
    for word in "$@"; do
        if [ -z "$told" ]; then
            case $word in --) told=1 ;; esac
            continue
        fi
        if [ -n "$value" ]; then
            value=''
            continue
        fi
        case $word in
        --exact) exact=1 ;;
        --skip | --test-threads | --format | --color | --logfile | -Z) value=1 ;;
        -*) ;;
        *) names=$((names + 1)) ;;
        esac
    done
    if [ -n "$exact" ] && [ "$names" -gt 1 ]; then echo "$names"; else echo 1; fi
}

# Of the last run of nextest: what each test binary and the slowest tests took, of one core or of waiting.
test_times() {
    local report=target/nextest/default/junit.xml
    [ -r "$report" ] || return 0
    local costs
    costs=$(awk '
        function attribute(name) {
            return match($0, " " name "=\"[^\"]*") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : ""
        }
        /<testcase / {
            binary = attribute("classname"); took = attribute("time")
            sum[binary] += took; tests[binary]++
            printf "test %.1f %s %s\n", took, binary, attribute("name")
        }
        END { for (binary in sum) printf "binary %.1f %s (%d tests)\n", sum[binary], binary, tests[binary] }
    ' "$report" | sort -k1,1 -k2,2nr)
    printf '\n%-34s %8s\n' 'slowest test binaries' seconds
    awk '$1 == "binary" && ++n <= 12 { printf "%-34s %8.0f  %s %s\n", $3, $2, $4, $5 }' <<<"$costs"
    printf '\n%-34s %8s\n' 'slowest tests' seconds
    awk '$1 == "test" && ++n <= 12 { printf "%-34s %8.0f  %s\n", $3, $2, $4 }' <<<"$costs"
}
