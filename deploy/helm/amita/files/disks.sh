#!/bin/sh
# Makes stores of disks that hold nothing at all. What holds a store is left to the node, sound or not; what holds anything else is somebody's
# data, and the pod does not begin.
. /scripts/lib.sh
for path in $(echo "$AMITA_STORES" | tr ',' ' '); do
    [ -e "$path" ] || die "there is no $path in this pod"
    if ! found=$(amita disk list --json "$path"); then
        # A disk that cannot be read is lost to this node, and the others of it are not.
        say "$path cannot be looked at: $found"
        continue
    fi
    case $found in
        *'"state": "no store"'*) ;;
        *)
            say "$path holds a store"
            continue
            ;;
    esac
    # `amita disk format` looks at the first and the last MiB; wipefs knows marks that lie elsewhere, and more names.
    marks=$(wipefs --no-act --noheadings --output TYPE,OFFSET "$path")
    [ -z "$marks" ] || die "$path was not touched, it holds something: $marks. If it is nobody's, wipe it (wipefs --all, blkdiscard)"
    [ "$FORMAT" = true ] || die "$path holds no store, and nodes.format is false: amita disk format $path"
    say "$path is empty, and becomes a store; all of it is written"
    amita disk format "$path" || die "$path was not made a store of"
done
