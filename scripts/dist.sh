#!/bin/sh
# Builds wheel and source archive into the folder $1, then installs each into an environment of its own, away from the
# sources, and tries what works without a network.
set -eu
python=${PYTHON:-python3}
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'dist: %s\n' "$*" >&2; }

"$python" -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet --disable-pip-version-check build
rm -rf "$out"
"$work/build/bin/python" -m build --outdir "$out" . >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }

for made in "$out"/*.whl "$out"/*.tar.gz; do
    "$python" -m venv --clear "$work/try"
    "$work/try/bin/python" -m pip install --quiet --disable-pip-version-check "$made"
    # A client alone: one package besides, and a command that says what it lacks.
    (
        cd "$work"
        try/bin/python -c 'import penstock; penstock.connect; penstock.connect_sync'
        packages=$(try/bin/python -m pip list --disable-pip-version-check --format freeze | grep -vcE '^(pip|setuptools)=')
        [ "$packages" = 2 ] || { say "$made brings $packages packages instead of 2"; exit 1; }
        ! try/bin/penstock --version 2>told || { say "the command works without its extra"; exit 1; }
        grep -q "penstock\[server\]" told
    )
    "$work/try/bin/python" -m pip install --quiet --disable-pip-version-check "$made[server]"
    (
        cd "$work"
        PATH="$work/try/bin:$PATH"
        penstock --version
        penstock demo --help >/dev/null
        penstock quotes --count 20 >quotes.csv
        printf "symbol = 'YHOO'\n" >selectors.txt
        penstock match --selectors selectors.txt --messages quotes.csv --count >/dev/null
    )
    say "$made installs and works"
done
