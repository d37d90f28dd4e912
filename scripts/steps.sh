# Runs set-up steps side by side. A step is a script with a name; its output goes to a log, its start, end and time to the
# person. When one fails, the others are ended and nothing further starts.
#
#   start NAME "what it does" COMMAND...     begin in the background
#   await NAME...                            go on when these have ended well

steps=$build/steps
running=

now() { read -r up _ </proc/uptime && echo "${up%.*}${up#*.}"; }   # hundredths of a second

took() {
  hundredths=$(($(now) - $1))
  printf '%d.%d s' $((hundredths / 100)) $((hundredths % 100 / 10))
}

begin_steps() {
  mkdir -p "$steps"
  rm -f "$steps"/*
  trap 'end_steps; exit 129' HUP
  trap 'end_steps; exit 130' INT
  trap 'end_steps; exit 143' TERM
}

start() {
  name=$1 what=$2
  shift 2
  now >"$steps/$name.began"
  printf '  .. %-13s %s\n' "$name" "$what"
  # A session of its own, so that the whole step can be ended at once.
  setsid sh -c 'done=$1; shift; "$@"; code=$?; echo $code >"$done.new"; mv "$done.new" "$done"' \
    step "$steps/$name.done" "$@" >"$steps/$name.log" 2>&1 </dev/null &
  echo $! >"$steps/$name.pid"
  running="$running $name"
}

await() {
  for wanted in "$@"; do
    while case " $running " in *" $wanted "*) true ;; *) false ;; esac; do
      look || sleep 0.1
    done
  done
}

# Reports what has ended since the last look; true if anything had.
look() {
  still= seen=1
  for name in $running; do
    if [ -e "$steps/$name.done" ]; then
      seen=0
      report "$name" "$(cat "$steps/$name.done")"
    elif kill -0 "$(cat "$steps/$name.pid")" 2>/dev/null || [ -e "$steps/$name.done" ]; then
      still="$still $name"
    else
      report "$name" killed
    fi
  done
  running=$still
  return $seen
}

report() {
  time=$(took "$(cat "$steps/$1.began")")
  if [ "$2" = 0 ]; then
    printf '  ok %-13s %s (%s)\n' "$1" "$(sed -n 's/^=> //p' "$steps/$1.log" | tail -n 1)" "$time"
    return
  fi
  {
    printf '\nset-up failed in step "%s" after %s (status %s). The end of its log:\n\n' "$1" "$time" "$2"
    grep -v '^hint: ' "$steps/$1.log" | tail -n 25 | sed 's/^/    /'
    sed -n 's/^hint: /\nWhat you can do: /p' "$steps/$1.log"
    printf '\nThe whole log: %s\n' "$steps/$1.log"
  } >&2
  end_steps
  exit 1
}

# Ends every step that runs, with its children, and waits until they are gone. A step may finish what must not be torn apart.
end_steps() {
  for name in $running; do
    group=$(cat "$steps/$name.pid")
    kill -s TERM -- "-$group" 2>/dev/null || continue
    waits=0
    while kill -s 0 -- "-$group" 2>/dev/null; do
      waits=$((waits + 1))
      [ "$waits" != 30 ] || echo "waiting for step \"$name\" to end" >&2
      [ "$waits" -lt 3000 ] || kill -s KILL -- "-$group" 2>/dev/null
      sleep 0.1
    done
  done
  running=
}
