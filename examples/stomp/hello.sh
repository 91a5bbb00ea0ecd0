#!/bin/sh
# STOMP by hand, with nothing but a shell and nc: sends a message to a queue with a receipt, and takes it from there.
#
#     sh hello.sh
#     sh hello.sh 10.0.0.1 61613
set -eu
host=${1:-127.0.0.1}
port=${2:-61613}

folder=$(mktemp -d)
mkfifo "$folder/frames"
nc "$host" "$port" < "$folder/frames" > "$folder/answers" &
connection=$!
trap 'kill "$connection" 2> /dev/null || :; rm -r "$folder"' EXIT
# What goes to 3 is sent; the connection lasts as long as 3 is open.
exec 3> "$folder/frames"

# A frame is a command, its headers, an empty line, the body and a NUL.
frame() { printf '%s\n' "$@" '' >&3; printf '\0' >&3; }
frame_with_body() { body=$1; shift; printf '%s\n' "$@" '' >&3; printf '%s\0' "$body" >&3; }

answers() { tr '\0' '\n' < "$folder/answers"; }

# Waits until a line of the answers begins like this, for 20 seconds at most.
wait_for() {
    tries=0
    until answers | grep -q "^$1"; do
        tries=$((tries + 1))
        [ "$tries" -le 200 ] || { echo "there was no $1, but:" >&2; answers >&2; exit 1; }
        sleep 0.1
    done
}

frame CONNECT accept-version:1.2 "host:$host"
wait_for CONNECTED
# A queue keeps the message until somebody has taken it. The receipt comes when it is on a disk.
frame_with_body 'Hello from a shell' SEND destination:/queue/hello content-type:text/plain receipt:sent
wait_for receipt-id:sent
frame SUBSCRIBE id:1 destination:/queue/hello ack:client-individual receipt:subscribed
wait_for MESSAGE
wait_for ack:
ack=$(answers | sed -n 's/^ack://p')
# With this receipt the message is done: nobody gets it any more.
frame ACK "id:$ack" receipt:done
wait_for receipt-id:done
frame DISCONNECT receipt:bye
wait_for receipt-id:bye
exec 3>&-
wait "$connection"

answers
