# bash completion for calltrace-opt. Its options are those that its --help has.
# shellcheck shell=bash disable=SC2207 # candidates are single words, but for names of files

_calltrace_opt()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local -a options
	# "=" is a word of its own.
	if [[ $word == = ]]; then
		word=''
	elif [[ $before == = ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case $before in
	--output-language) COMPREPLY=($(compgen -W "bitcode ir" -- "$word")) ;;
	--enable-runtime | --initialize-runtime | --inject-instrumentation | --force-binary-output)
		[[ ${COMP_LINE:0:COMP_POINT} == *=* ]] && COMPREPLY=($(compgen -W "true false" -- "$word")) && return
		;;&
	*)
		if [[ $word == -* ]]; then
			options=($("${COMP_WORDS[0]}" --help 2>/dev/null | grep -oE -- '--[a-z-]+=?'))
			COMPREPLY=($(compgen -W "${options[*]}" -- "$word"))
			[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
		else
			compopt -o filenames
			COMPREPLY=($(compgen -f -- "$word"))
		fi
		;;
	esac
}
complete -F _calltrace_opt calltrace-opt
