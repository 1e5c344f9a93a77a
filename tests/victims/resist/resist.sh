# A shell script that obeys, accounts and checks itself: pipelines, command substitutions, traps, jobs. What is watched in it is the
# shell's last random number, and the script tells which ones it got: "ok COUNT NUMBER...".
count=0 rounds=0 errors=0 usr1=0
trap '((usr1++))' USR1
RANDOM=42

hit() {
  local i seen=()
  for ((i = 0; i < $1; i++)); do seen+=("$RANDOM"); done
  ((count += $1))
  echo "ok $count ${seen[*]}"
}

round() {
  local before=$usr1 got sum=0 i
  got=$(printf '%s\n' c a b | sort | tr -d '\n')
  [[ $got == abc ]] || ((errors++))
  kill -USR1 $$
  ((usr1 == before + 1)) || ((errors++))
  (exit 9) &
  wait $!
  (($? == 9)) || ((errors++))
  for ((i = 0; i < 500; i++)); do ((sum += i)); done
  ((sum == 124750)) || ((errors++))
  while IFS= read -r i; do ((sum -= i)); done < <(echo 124750)
  ((sum == 0)) || ((errors++))
  ((rounds++))
}

echo "pid $$ 0x0"
while read -r verb n; do
  case $verb in
  hit) hit "$n" ;;
  check) round; echo "ok $rounds $errors" ;;
  *) break ;;
  esac
done
echo "bye $count $errors"
exit 7
