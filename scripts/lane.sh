#!/bin/sh
# lane.sh PYTHON RUN: one run of "dev test" beside others.  Its output goes to a log, which is printed
# when it ends, so that the output of two runs is never mixed.
set -u
name=${2%% *}
argument=${2#"$name"}
argument=${argument# }
log=build/logs/part-$(printf '%s' "$2" | tr -c 'a-zA-Z0-9.\n-' '-').log
# More than twice what the slowest run takes: a test that hangs must not hold the others for ever.
limit=1800
begin=$(date +%s)
printf '==> %s: started\n' "$2"
status=0
timeout --kill-after=30 "$limit" ./dev --python "$1" part "$name" ${argument:+"$argument"} \
    >"$log" 2>&1 </dev/null || status=$?
# 124 and 137: ended by timeout.
case $status in 124 | 137) printf 'stopped: it did not end within %d s\n' "$limit" >>"$log" ;; esac
seconds=$(($(date +%s) - begin))
if [ "$status" = 0 ]; then
    printf '==> %s: passed in %d s\n' "$2" "$seconds"
else
    # One write: another lane may print at the same time.
    text=$(cat "$log")
    printf '==> %s: failed after %d s\n%s\n==> end of %s\n' "$2" "$seconds" "$text" "$2"
fi
# 255 would make xargs stop the other parts.
[ "$status" = 0 ] || exit 1
