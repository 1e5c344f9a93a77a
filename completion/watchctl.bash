# bash completion for watchctl. What can be completed is asked from the program: `watchctl __complete`.
# shellcheck shell=bash disable=SC2207 # candidates are single words

_watchctl_argument() # HOW WORDS CURRENT
{
	case $1 in
	words) COMPREPLY=($(compgen -W "$2" -- "$3")) ;;
	file) COMPREPLY=($(compgen -f -- "$3")) ;;
	directory) COMPREPLY=($(compgen -d -- "$3")) ;;
	pid) COMPREPLY=($(compgen -W "$(ps -A -o pid= 2>/dev/null)" -- "$3")) ;;
	program) COMPREPLY=($(compgen -c -- "$3")) ;;
	command) COMPREPLY=($(compgen -W "$(watchctl __complete 2>/dev/null | cut -f1)" -- "$3")) ;;
	esac
}

_watchctl()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=watch dashes=0 i table how words name rest
	COMPREPLY=()

	for ((i = 1; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == -- ]] && dashes=$i && break
	done
	if ((dashes)); then
		if ((dashes == COMP_CWORD - 1)); then
			_watchctl_argument program "" "$current"
		else
			_watchctl_argument file "" "$current"
		fi
		return
	fi

	if ((COMP_CWORD == 1)) && [[ $current != -* ]]; then
		_watchctl_argument command "" "$current"
		return
	fi
	[[ ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}

	table=$(watchctl __complete "$command" 2>/dev/null) || return
	while IFS=$'\t' read -r name how words rest; do
		# Two tabs in a row are one to read: an empty field must not swallow the next.
		if [[ $name == "$previous" && $how != none && $name != - ]]; then
			_watchctl_argument "$how" "$words" "$current"
			return
		fi
	done <<<"${table//$'\t\t'/$'\t'-$'\t'}"

	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$(cut -f1 <<<"$table" | grep -v '^-$')" -- "$current"))
	else
		how=$(sed -n 's/^-\t\([a-z]*\).*/\1/p' <<<"$table")
		_watchctl_argument "$how" "" "$current"
	fi
}

complete -o filenames -F _watchctl watchctl
