#!/bin/sh
# lane.sh PYTHON RUN: one run of "dev test" beside others.  Its output goes to a log, which is printed
# when it ends, so that the output of two runs is never mixed.
set -u
name=${2%% *}
argument=${2#"$name"}
argument=${argument# }
log=build/logs/part-$(printf '%s' "$2" | tr -c 'a-zA-Z0-9.\n-' '-').log
begin=$(date +%s)
printf '==> %s: started\n' "$2"
status=0
./dev --python "$1" part "$name" ${argument:+"$argument"} >"$log" 2>&1 </dev/null || status=$?
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
