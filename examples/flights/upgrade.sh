#!/usr/bin/env bash
# Upgrades the job `flights` while its input goes on: a savepoint of the running job, a stop with a savepoint, then the next
# version of the code with a new field and a new operator, on RocksDB in place of memory, with 3 subtasks in place of 2. The
# results are those of a run that nobody disturbed.
#
# Usage: examples/flights/upgrade.sh [DIR]   (results go to DIR, default out/upgrade)
# BIN: a folder with the programs flights, flights_next and stillstream; without it they are built first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out="${1:-out/upgrade}"
if [ -z "${BIN:-}" ]; then
    cargo xtask libclang
    cargo build --quiet --package flights --package stillstream-cli --features flights/rocksdb
    BIN="$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug"
fi
rest="http://127.0.0.1:${PORT:-18081}"
settings=(--job --checkpoint-interval 200ms --storage filesystem -D "rest.bind-port=${PORT:-18081}")
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n== %s\n' "$*"; }
stillstream() { "$BIN/stillstream" "$@"; }

say "The results of a run that nobody disturbs"
"$BIN/flights" "${settings[@]}" --out "$out/undisturbed" --checkpoint-dir "$out/undisturbed/checkpoints" --pace 0s

say "The first version runs, on two subtasks with state in memory"
"$BIN/flights" "${settings[@]}" --out "$out/run" --checkpoint-dir "$out/checkpoints" --parallelism 2 --pace 8s &
job=$!
trap 'kill "$job" 2>/dev/null || true' EXIT
until stillstream list --rest "$rest" 2>/dev/null | grep -q RUNNING; do
    kill -0 "$job" # it must not have ended
    sleep 0.2
done

say "A savepoint while it runs"
sleep 1
stillstream savepoint flights "$out/savepoints" --rest "$rest"
sleep 1

say "The job is stopped with a savepoint"
savepoint="$(stillstream stop flights "$out/savepoints" --rest "$rest")"
wait "$job"
trap - EXIT
stillstream verify "$savepoint"
stillstream inspect "$savepoint"

say "What the next version makes of that savepoint"
next=("${settings[@]}" --out "$out/run" --checkpoint-dir "$out/checkpoints" --parallelism 3 --backend rocksdb)
stillstream restore-plan "$savepoint" --job "$BIN/flights_next" --parallelism 3

say "The next version goes on from it, on three subtasks with state in RocksDB"
"$BIN/flights_next" "${next[@]}" --from "$savepoint" --pace 0s

say "The results, compared with those of the undisturbed run"
for name in airport_hours carrier_days; do
    for run in undisturbed run; do
        cat "$out/$run/$name"/*.csv | sort > "$out/$run-$name"
    done
    # each file has a header
    cmp <(grep -v '^hour,\|^day,' "$out/undisturbed-$name") <(grep -v '^hour,\|^day,' "$out/run-$name")
    echo "$name: $(grep -vc '^hour,\|^day,' "$out/run-$name") rows, the same"
done
echo "storms since the upgrade: $(cat "$out/run/storms"/*.csv | grep -vc '^hour,\|^day,' || true)"
