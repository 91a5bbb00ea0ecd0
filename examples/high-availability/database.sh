#!/bin/sh
# Starts one of two PostgreSQL servers: SELF. The other one is PEER; FIRST is the primary in the beginning.
#
# A former primary that comes back while the other one is the primary becomes its standby, with a new copy of everything:
# what it has itself may be out of date. A standby just goes on.
set -eu

peer_is_primary() {
    state=$(psql -h "$PEER" -p "$PEER_PORT" -U penstock -d postgres -AtXc "SELECT pg_is_in_recovery()" 2>/dev/null) || return 1
    [ "$state" = f ]
}

# Whether the other one has the data that is here, in a later state: not if it was made anew, without its disk.
peer_has_ours() {
    ours=$(LC_ALL=C pg_controldata "$PGDATA" | sed -n 's/^Database system identifier: *//p')
    theirs=$(psql -h "$PEER" -p "$PEER_PORT" -U penstock -d postgres -AtXc "SELECT system_identifier FROM pg_control_system()")
    [ "$ours" = "$theirs" ]
}

# Made beside its place, so that a server that was interrupted meanwhile does not start with half of it. Not under the
# name SELF: commits would take a copy that is not complete yet for the standby.
copy_peer() {
    rm -rf "$PGDATA.new"
    pg_basebackup -h "$PEER" -p "$PEER_PORT" -U penstock -D "$PGDATA.new" -R -X stream -c fast
    rm -rf "$PGDATA"
    mv "$PGDATA.new" "$PGDATA"
}

make_first() {
    rm -rf "$PGDATA.new"
    umask 077
    echo "$PGPASSWORD" > "$PGDATA.password"
    initdb -D "$PGDATA.new" -U penstock --encoding=UTF8 --auth-local=trust --auth-host=scram-sha-256 \
        --pwfile="$PGDATA.password"
    rm "$PGDATA.password"
    echo "host all all all scram-sha-256" >> "$PGDATA.new/pg_hba.conf"
    echo "host replication all all scram-sha-256" >> "$PGDATA.new/pg_hba.conf"
    echo "CREATE DATABASE penstock" | postgres --single -D "$PGDATA.new" postgres > /dev/null
    mv "$PGDATA.new" "$PGDATA"
}

if [ ! -e "$PGDATA/standby.signal" ]; then
    if peer_is_primary; then
        if [ -e "$PGDATA" ] && ! peer_has_ours; then
            echo "$PEER has other data than $SELF: stop the wrong one, and remove its data; it copies the other" >&2
            exit 1
        fi
        copy_peer
    elif [ ! -e "$PGDATA" ]; then
        if [ "$SELF" = "$FIRST" ]; then
            make_first
        else
            until peer_is_primary; do sleep 0.2; done
            copy_peer
        fi
    fi
fi
# A standby follows its primary under the name of its cluster.
exec postgres "$@" -c cluster_name="$SELF"
