#!/bin/sh
# Makes the virtual environment at $1 with Penstock and everything needed to run and test it.
# With --java before it, only sees to the Java that Spark needs.
set -eu
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

has_java() { "$venv/bin/python" -c 'from penstock.pipeline.java import find_java; find_java()' >/dev/null 2>&1; }

# Only Spark needs Java: whatever becomes of this, the rest of Penstock works, so setup goes on.
ensure_java() {
    has_java && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing Java for Spark"
        apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are there"
        for package in openjdk-17-jre-headless default-jre-headless; do
            apt-get install -y -qq --no-install-recommends "$package" >&2 && has_java && return
        done
        say "Java could not be installed"
    fi
    say "no Java 17 or newer: all works but what runs on Spark, and its tests are skipped"
    say "on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless; or set JAVA_HOME to one"
}

if [ "$1" = --java ]; then
    venv=$2
    ensure_java
    exit 0
fi
venv=$1

command -v "$python" >/dev/null 2>&1 || die "no $python found; install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$("$python" --version) is too old; Penstock needs Python 3.11 or newer (make setup PYTHON=...)"

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    # Debian splits venv from Python; root can mend that here, others are told how.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing python3-venv"
        apt-get update -qq >&2 && apt-get install -y -qq python3-venv >&2
    else
        die "Python's venv module is missing; on Debian or Ubuntu: sudo apt-get install python3-venv"
    fi
fi

[ -x "$venv/bin/python" ] || { say "creating $venv"; "$python" -m venv "$venv"; }
say "installing Penstock and its tools (a few minutes on a cold cache)"
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
# No way around the lock if this fails: a file with another hash than the tested one must not get in.
# The lock names every package, so pip must not resolve anything itself (--no-deps): older versions of pip
# look for the newest release of a package that another one asks for with extras, and then refuse it.
install --require-hashes --no-deps --requirement requirements.lock ||
    die "not all of requirements.lock could be installed; pip says above what, and why"
"$venv/bin/python" -m pip check >&2 || die "requirements.lock lacks what pip names above; make it anew with 'make lock'"
install --no-deps --no-build-isolation --editable .
ensure_java
say "ready: $venv/bin/penstock"
