#compdef mcp-reconnect
# Completion of mcp-reconnect for zsh, to be sourced after compinit, or to be found in
# fpath as _mcp-reconnect. The program itself knows what may stand at the cursor.
_mcp-reconnect() {
    local -a lines
    local kind n
    lines=("${(@f)$(command mcp-reconnect __complete zsh "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
    kind=$lines[1]
    shift lines
    if [[ $kind == command ]]; then
        n=${words[(i)--]}
        shift n words
        ((CURRENT -= n))
        _normal -p mcp-reconnect
        return
    fi
    if compset -P '-[^=]#='; then # --flag=value
        lines=("${(@)lines#-[^=]#=}")
    fi
    case $kind in
        words) _describe -t values mcp-reconnect lines ;;
        files) _files ;;
        dirs) _path_files -/ ;; # _files would go on to files where there are none
        *) return 1 ;;
    esac
}
if [[ $funcstack[1] == _mcp-reconnect ]]; then
    _mcp-reconnect "$@"
else
    compdef _mcp-reconnect mcp-reconnect
fi
