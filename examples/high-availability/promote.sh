#!/bin/sh
# Makes the standby the primary after the primary was lost: ./promote.sh db2
#
# Patroni and others do this by themselves. Publishers wait until the other server has copied everything, since the
# pubend insists on a standby (replicas_min).
set -eu

case "${1-}" in
    db1) lost=db2 ;;
    db2) lost=db1 ;;
    *) echo "usage: $0 db1|db2: the server that becomes the primary" >&2; exit 2 ;;
esac
# There must never be two.
docker compose kill "$lost" || echo "$lost does not run" >&2
docker compose exec -T "$1" psql -U penstock -d penstock -c "SELECT pg_promote()"
docker compose up --detach "$lost"
