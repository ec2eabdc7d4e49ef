# bash completion of selfsample(1): installed as share/bash-completion/completions/selfsample, or to
# be read by `. selfsample.bash`. Works without the package bash-completion as well.

# Options by sub-command; the first row is the command itself. One that takes a value ends in =.
declare -gA _selfsample_options=(
    [run]='--out= --format= --engine= --rate= --stack= --kernel= --threads= --unit= --only= --children --no-children --inline
        --checkpoint= --top --flamegraph --help --version -o= -f= -e= -r= -s= -k= -t= -u= -i -c= -h -V'
    [top]='--rows= --by-thread --sort= --thread= --roots= --unit= --rate= --wide --help -n= -b -s= -t= -u= -r= -w -h'
    [tree]='--merge-threads --cut= --thread= --roots= --unit= --rate= --wide --help -m -c= -t= -u= -r= -w -h'
    [merge]='--root= --thread= --roots= --out= --help -t= -o= -h'
    [diff]='--rows= --sort= --folded --normalise --merge-threads --thread= --roots= --unit= --rate= --wide --out= --help
        -s= -f -n -m -t= -u= -r= -w -o= -h'
    [convert]='--to= --sum --thread= --roots= --unit= --rate= --out= --help -t= -u= -r= -o= -h'
    [flamegraph]='--diff --title= --sum --merge-threads --thread= --roots= --unit= --rate= --out= --help -d -m -t= -u= -r= -o= -h'
    [list]='--help -h'
    [live]='--rows= --interval= --count= --all --by-thread --sort= --thread= --wide --help
        -n= -i= -a -b -s= -t= -w -h'
    [doctor]='--help -h'
    [snapshot]='--help -h' [pause]='--help -h' [resume]='--help -h' [inline]='--help -h'
)

# The long name of an option of sub-command $1.
_selfsample_long() {
    case $2 in
    -n) [[ $1 == diff ]] && echo --normalise || echo --rows ;;
    -s) [[ $1 == run ]] && echo --stack || echo --sort ;;
    -t) [[ $1 == run ]] && echo --threads || echo --thread ;;
    -c) [[ $1 == run ]] && echo --checkpoint || echo --cut ;;
    -i) [[ $1 == run ]] && echo --inline || echo --interval ;;
    -f) [[ $1 == run ]] && echo --format || echo --folded ;;
    -o) echo --out ;;
    -e) echo --engine ;;
    -r) echo --rate ;;
    -u) echo --unit ;;
    -k) echo --kernel ;;
    *) echo "$2" ;;
    esac
}

# Words for the value of option $2 of sub-command $1, for a value that begins with $3. Returns 1
# where the option takes none.
_selfsample_value() {
    local option words=''
    option=$(_selfsample_long "$1" "$2")
    [[ " ${_selfsample_options[$1]//$'\n'/ } " == *" $option= "* || $option == --children || $option == --flamegraph ]] ||
        return 1
    case $option in
    --format) words='folded pprof' ;;
    --engine) words='auto perf timer' ;;
    --kernel) words='auto yes no' ;;
    --threads) words='name tid none' ;;
    --unit) words='samples us' ;;
    --children) words='yes no' ;;
    --sort) words='self total' ;;
    --to) words='speedscope pprof folded' ;;
    --out | --flamegraph)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$3")
        return 0
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$3")
}

# Running, profiled processes: ids, and the names of their programs.
_selfsample_processes() {
    local words
    words=$("${COMP_WORDS[0]}" list 2>/dev/null | awk 'NR > 1 { print $1; print $6 }')
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$1")
}

_selfsample_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -X '!*.@(folded|gz|txt)' -- "$1"; compgen -d -- "$1")
}

# The programs of PATH that begin with $1, without what only the shell can run.
_selfsample_programs() {
    local directory file IFS=:
    [[ $1 == */* ]] && return
    for directory in $PATH; do
        for file in "${directory:-.}/$1"*; do
            [[ -f $file && -x $file ]] && printf '%s\n' "${file##*/}"
        done
    done
}

# What sub-command $1 takes besides options, or the program to be run.
_selfsample_argument() {
    case $1 in
    run)
        mapfile -t COMPREPLY < <(_selfsample_programs "$2"; compgen -f -- "$2"
            [[ $3 == 1 ]] && compgen -W "${!_selfsample_options[*]}" -X run -- "$2")
        ;;
    doctor) mapfile -t COMPREPLY < <(_selfsample_programs "$2"; compgen -f -- "$2") ;;
    list) ;;
    live | snapshot | pause | resume) _selfsample_processes "$2" ;;
    *) _selfsample_files "$2" ;;
    esac
}

# Sets PROGRAM to the index of the first word that is no option nor an option's value, or to that of
# the word under the cursor.
_selfsample_program() {
    local word
    for ((program = 1; program < COMP_CWORD; program++)); do
        word=${COMP_WORDS[program]}
        [[ $word == -- ]] && { ((program++)); return; }
        [[ $word == -* ]] || return 0
        if [[ ${COMP_WORDS[program + 1]} == '=' ]]; then
            ((program += 2))
        elif [[ " ${_selfsample_options[run]//$'\n'/ } " == *" $word= "* ]]; then
            ((program++))
        fi
    done
    program=$COMP_CWORD
}

_selfsample() {
    local command=run program current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    shopt -q extglob || shopt -s extglob
    COMPREPLY=()
    if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != run && -v _selfsample_options[${COMP_WORDS[1]}] ]]; then
        command=${COMP_WORDS[1]}
    fi
    # `--unit=us` is three words.
    if [[ $current == '=' ]]; then
        current=''
    elif [[ $before == '=' ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $command == run ]]; then
        _selfsample_program
        if ((program < COMP_CWORD)); then # the program's own words
            declare -F _command_offset >/dev/null && _command_offset "$program" && return
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
    fi
    [[ $before == -* && $before != --flamegraph && $before != --children || ${COMP_WORDS[COMP_CWORD]} == '=' ||
        ${COMP_WORDS[COMP_CWORD - 1]} == '=' ]] && _selfsample_value "$command" "$before" "$current" && return
    if [[ $current == -* ]]; then
        local words=${_selfsample_options[$command]//=/}
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    _selfsample_argument "$command" "$current" "$COMP_CWORD"
}

complete -F _selfsample selfsample
