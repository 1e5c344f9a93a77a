# bash completion for watchctl. What can be completed is asked from the program: `watchctl __complete`.
# shellcheck shell=bash disable=SC2207 # candidates are single words, but for names of files

# The process or program that the line is about, as `watchctl __complete --variables` wants it, in _watchctl_target.
_watchctl_find_target()
{
	local i
	_watchctl_target=()
	for ((i = 1; i < ${#COMP_WORDS[@]}; i++)); do
		case ${COMP_WORDS[i]} in
		-p | --pid)
			# Where "=" divides words, it is one.
			[[ ${COMP_WORDS[i + 1]} == = ]] && i=$((i + 1))
			_watchctl_target=(-p "${COMP_WORDS[i + 1]}")
			;;
		--pid=*) _watchctl_target=(-p "${COMP_WORDS[i]#*=}") ;;
		-p[0-9]*) _watchctl_target=(-p "${COMP_WORDS[i]#-p}") ;;
		--)
			[[ -n ${COMP_WORDS[i + 1]} ]] && _watchctl_target=("${COMP_WORDS[i + 1]/#\~/$HOME}")
			return
			;;
		esac
	done
}

# The word under the cursor up to there, with what readline takes for several: in "lib.so:fl", "fl" alone is replaced.
_watchctl_names() # KIND
{
	local word=${COMP_LINE:0:COMP_POINT} replaced=''
	local -a _watchctl_target
	_watchctl_find_target
	((${#_watchctl_target[@]})) || return
	word=${word##*[$' \t']}
	if [[ $word == [\'\"]* ]]; then
		word=${word:1}
	else
		replaced=${word%"${word##*["${COMP_WORDBREAKS//[$' \t\n']/}"]}"}
		word=${word//\\/}
		replaced=${replaced//\\/}
	fi
	mapfile -t COMPREPLY < <(watchctl __complete "--$1s" "$word" "${_watchctl_target[@]}" 2>/dev/null)
	COMPREPLY=("${COMPREPLY[@]#"$replaced"}")
	# Expressions go on: ".member". "filenames" would quote what is one already.
	type compopt &>/dev/null && compopt -o nospace 2>/dev/null
	return 0
}

_watchctl_argument() # HOW WORDS CURRENT
{
	case $1 in
	words) COMPREPLY=($(compgen -W "$2" -- "$3")) ;;
	# Names of files may have blanks in them.
	file) mapfile -t COMPREPLY < <(compgen -f -- "$3") ;;
	directory) mapfile -t COMPREPLY < <(compgen -d -- "$3") ;;
	pid) COMPREPLY=($(compgen -W "$(ps -A -o pid= 2>/dev/null)" -- "$3")) ;;
	program) COMPREPLY=($(compgen -c -- "$3")) ;;
	command) COMPREPLY=($(compgen -W "$(watchctl __complete 2>/dev/null | cut -f1)" -- "$3")) ;;
	variable | function) _watchctl_names "$1" ;;
	esac
}

# The word before the one under the cursor, which readline may have divided: the option that it is the argument of.
_watchctl_previous()
{
	local line=${COMP_LINE:0:COMP_POINT}
	line=${line%"${line##*[$' \t']}"}
	line=${line%"${line##*[!$' \t']}"}
	printf '%s' "${line##*[$' \t']}"
}

_watchctl()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=watch dashes=0 i table how words name rest
	COMPREPLY=()
	[[ -n $COMP_LINE ]] && previous=$(_watchctl_previous)

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
