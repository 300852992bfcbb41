// Scripts for the shells: how each of them asks the program and takes its answer.
#include <fmt/format.h>

#include <map>

#include "bench/commands/help/completion.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

// The words of bash are separated at "=" and ":" as well, and it replaces only the text after the last of
// them. plumbline's words are separated by blanks.
constexpr const char* kBash = R"script(# bash completion of plumbline: eval "$(plumbline completion bash)"
_plumbline() {
  local line=${COMP_LINE:0:COMP_POINT} words current path reply file extension
  read -ra words <<<"$line"
  [[ $line == *[[:blank:]] ]] && words+=("")
  current=${words[-1]}
  path=$current
  [[ $current == -*=* ]] && path=${current#*=}
  COMPREPLY=()
  while IFS= read -r reply; do
    case $reply in
      :folders)
        compopt -o filenames 2>/dev/null
        while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -d -- "$path")
        ;;
      :files*)
        compopt -o filenames 2>/dev/null
        while IFS= read -r file; do
          extension=${file##*.}
          [[ $reply == :files || -d $file || " ${reply#:files } " == *" $extension "* ]] || continue
          COMPREPLY+=("$file")
        done < <(compgen -f -- "$path")
        ;;
      *) COMPREPLY+=("${reply%%$'\t'*}") ;;
    esac
  done < <("${words[0]/#\~/$HOME}" complete -- "${words[@]:1}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${current%%=*}="}")
  fi
}
complete -F _plumbline plumbline
)script";

constexpr const char* kZsh = R"script(#compdef plumbline
# zsh completion of plumbline: eval "$(plumbline completion zsh)" after compinit
_plumbline() {
  local -a lines whole open
  local line
  lines=("${(@f)$("${words[1]/#\~/$HOME}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    case $line in
      :folders) _files -/ ;;
      :files) _files ;;
      :files\ *) _files -g "*.(${(j:|:)${(s: :)line#:files }})" ;;
      *=$'\t'*) open+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
      *) whole+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  (( $#whole )) && _describe plumbline whole
  (( $#open )) && _describe plumbline open -S ''
}
compdef _plumbline plumbline
)script";

constexpr const char* kFish =
    R"script(# fish completion of plumbline:
# plumbline completion fish > ~/.config/fish/completions/plumbline.fish
function __plumbline_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':folders'
                __fish_complete_directories "$current"
            case ':files*'
                __fish_complete_path "$current"
            case '*'
                echo $line
        end
    end
end
complete -c plumbline -f -a '(__plumbline_complete)'
)script";

}  // namespace

std::string completion_script(const std::string& shell) {
  static const std::map<std::string, const char*> kScripts = {
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  const auto found = kScripts.find(shell);
  if (found == kScripts.end())
    throw InputError(fmt::format("completion: no script for {}, expected bash, zsh or fish", shell));
  return found->second;
}

}  // namespace plumbline
