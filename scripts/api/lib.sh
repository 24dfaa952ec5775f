# Sourced by the scripts that try the API with tools of Python: an environment of their own, and a cluster of one node that is thrown away.
# A caller sets `name` (its own, for what it says), and `work` (a folder of its own).

die() { echo "scripts/$name: $*" >&2; exit 1; }

# An environment with what a list names: of exactly these versions, each checked by its hash. Made once, and again when the list changes.
environment() { # FOLDER REQUIREMENTS
    local folder=$1 requirements=$2 stamp
    stamp=$(sha256sum <"$requirements")
    if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
    command -v python3 >/dev/null || die "there is no python3: install it (Debian: python3-venv)"
    rm -rf "$folder"
    mkdir -p "$folder"
    python3 -m venv "$folder" >"$folder/log" 2>&1 || {
        tail -n 5 "$folder/log" >&2
        die "python3 makes no environment (Debian: apt-get install python3-venv)"
    }
    "$folder/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
        -r "$requirements" >>"$folder/log" 2>&1 || {
        tail -n 20 "$folder/log" >&2
        die "what $requirements names cannot be had"
    }
    echo "$stamp" >"$folder/stamp"
}

free_port() {
    python3 -c 'import socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    print(free.getsockname()[1])'
}

processes=()
end_cluster() {
    local process
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    for process in "${processes[@]}"; do wait "$process" 2>/dev/null || true; done
    processes=()
}

# A node with a store, a pool and a volume; its address is in `api` then, and a token of each role in "$work/ROLE".
cluster() { # BINARY
    local amita=$1 metadata fabric tries=0
    metadata=127.0.0.1:$(free_port)
    fabric=127.0.0.1:$(free_port)
    api=127.0.0.1:$(free_port)
    "$amita" meta --listen "$metadata" --data "$work/meta.redb" >"$work/meta.log" 2>&1 &
    processes+=($!)
    export AMITA_METADATA=http://$metadata
    "$amita" disk format --size 1G "$work/store.img" >"$work/format.log" 2>&1 || die "no store: see $work/format.log"
    "$amita" serve --name n1 --store "$work/store.img" --fabric "$fabric" --api "$api" \
        --nbd "127.0.0.1:$(free_port)" --nvme "127.0.0.1:$(free_port)" >"$work/node.log" 2>&1 &
    processes+=($!)
    until "$amita" pool create fast --copies 1 --min-copies 1 >"$work/pool.log" 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || { cat "$work/pool.log" >&2; die "no node serves a store: see $work/node.log"; }
        sleep 0.5
    done
    "$amita" volume create disk0 --pool fast --size 64M >/dev/null
    local role
    for role in admin operator viewer auditor; do token "$amita" "$role" "$role"; done
}

# A token of that role, which is kept in a file that only its owner may read.
token() { # BINARY NAME ROLE
    (umask 077 && "$1" token create "$2" --role "$3" | head -n 1 >"$work/$2")
}
