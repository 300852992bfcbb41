# Version of the program and of its package: `git describe` relative to the last tag v1.2.3 ("1.2.3", or
# "1.2.3-4-gabcdef0" four commits later); without git or such a tag the project's version.
#
#   plumbline_version(out)               -> out: "1.2.3-4-gabcdef0"
#   plumbline_add_version_library(name)  -> plumbline_name, which defines plumbline_version() and follows
#                                           commits and tags
#
# The same file is the script that writes that source:
#   cmake -DOUT=x.cpp -DSOURCE=... -DFALLBACK=0.1.0 -P version.cmake
function(plumbline_describe source fallback out)
  set(${out} ${fallback} PARENT_SCOPE)
  if(EXISTS ${source}/.git)  # not the repository of somebody who has these sources within theirs
    execute_process(COMMAND git -C ${source} describe --tags --match "v[0-9]*" OUTPUT_VARIABLE described
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND described MATCHES "^v([0-9].*)$")
      set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  plumbline_describe("${SOURCE}" "${FALLBACK}" version)
  set(text "// Made by cmake/version.cmake.
#include \"bench/measure/machine/version.hpp\"

namespace plumbline {

const char* plumbline_version() {
  return \"${version}\";
}

}  // namespace plumbline
")
  file(CONFIGURE OUTPUT "${OUT}" CONTENT "${text}" @ONLY)  # written when it is another one
  return()
endif()

set(PLUMBLINE_VERSION_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(plumbline_version out)
  plumbline_describe(${PROJECT_SOURCE_DIR} ${PROJECT_VERSION} described)
  set(${out} ${described} PARENT_SCOPE)
endfunction()

function(plumbline_add_version_library name)
  set(changes_with "")
  foreach(file logs/HEAD refs/tags packed-refs)
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --path-format=absolute --git-path ${file}
      OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND EXISTS "${path}")
      list(APPEND changes_with ${path})
    endif()
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSOURCE=${PROJECT_SOURCE_DIR} -DFALLBACK=${PROJECT_VERSION}
      -P ${PLUMBLINE_VERSION_SCRIPT}
    DEPENDS ${PLUMBLINE_VERSION_SCRIPT} ${changes_with} VERBATIM)
  add_library(plumbline_${name} STATIC ${out})
  add_library(plumbline::${name} ALIAS plumbline_${name})
  target_link_libraries(plumbline_${name} PUBLIC plumbline_options)
endfunction()
