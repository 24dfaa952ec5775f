#!/bin/sh
# This pod's identity, in /state/identity, where the node renews it by itself. usage: identity.sh NAME [--follow]
#   from a token (/join/NAME, of a Secret): made once, by `amita node join`; without one, it is waited for
#   from a folder (/certificates, of cert-manager): copied, and with --follow whenever it changes
. /scripts/lib.sh
ends_when_told
umask 077
name=$1
own=/state/identity

# The order that a node which serves meanwhile counts on: docs/operating/identities.md, "An outside authority".
take() {
    local from=/certificates
    [ -s "$from/cert.pem" ] && [ -s "$from/key.pem" ] && [ -s "$from/ca.pem" ] || return 1
    ! cmp -s "$from/cert.pem" "$own/cert.pem" 2>/dev/null || return 0
    mkdir -p "$own"
    cat "$from/ca.pem" >"$own/ca.new.pem" && mv "$own/ca.new.pem" "$own/ca.pem"
    cat "$from/cert.pem" >"$own/cert.next.pem"
    cat "$from/key.pem" >"$own/key.new.pem" && mv "$own/key.new.pem" "$own/key.pem"
    mv "$own/cert.next.pem" "$own/cert.pem"
    say "the identity of $name was taken from the certificate's volume"
}

if [ -d /certificates ]; then
    while ! take; do
        [ "${2:-}" = --follow ] || say "there is no certificate for $name yet"
        rest 5
    done
    while [ "${2:-}" = --follow ]; do
        rest 30
        take || true
    done
    exit 0
fi

if [ -e "$own/cert.pem" ]; then
    # One that has ended cannot be renewed: what is to be done is in the README of this chart.
    amita cert show --identity "$own" || say "this identity is not valid: move it aside, and give a token for $name"
    exit 0
fi
asked=
while [ ! -s "/join/$name" ]; do
    [ -n "$asked" ] || say "waits for a token: the key $name of the Secret ${JOIN_SECRET:-}"
    asked=1
    rest 2
done
# Half an identity is none: it gets its place when it is whole.
rm -rf "$own.new"
cat "/join/$name" >/tmp/token
amita node join "$name" --ca-server "$AMITA_CA_SERVER" --token-file /tmp/token --identity "$own.new" || die "the token for $name was not taken"
rm -f /tmp/token
mv "$own.new" "$own"
say "$name has an identity"
