# Embeds data files into a library, so that the program works from any folder.
#
#   plumbline_embed(library function FILES a.md pages/b.md all.css=first.css,second.css ...)
#
# gives the library `std::span<const plumbline::EmbeddedFile> plumbline::function()`
# (core/base/embedded_file.hpp), which a header of the library declares. The span has the files in this order,
# each with its name (without its folder), its bytes and their SHA-256. `name=a,b` joins files into one. A
# file that changes is embedded anew.
#
# The same file is the script that writes the source:
#   cmake -DOUT=x.cpp -DFUNCTION=x "-DFILES=..." -DFOLDER=... -P embed.cmake
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(PLUMBLINE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(plumbline_embed library function)
    cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
    set(inputs ${ARG_FILES})
    list(TRANSFORM inputs REPLACE "^[^=]*=" "")
    string(REPLACE "," ";" inputs "${inputs}")
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DFUNCTION=${function} "-DFILES=${ARG_FILES}"
        -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR} -P ${PLUMBLINE_EMBED_SCRIPT}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      DEPENDS ${inputs} ${PLUMBLINE_EMBED_SCRIPT} VERBATIM)
    # Alone, so that a batch of sources can be read before anything is built.
    set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    target_sources(plumbline_${library} PRIVATE ${out})
  endfunction()
  return()
endif()

set(arrays "")
set(entries "")
set(count 0)
foreach(item IN LISTS FILES)
  if(item MATCHES "^([^=]+)=(.+)$")
    set(name "${CMAKE_MATCH_1}")
    string(REPLACE "," ";" parts "${CMAKE_MATCH_2}")
  else()
    get_filename_component(name "${item}" NAME)
    set(parts "${item}")
  endif()
  list(LENGTH parts several)
  if(several EQUAL 1)
    get_filename_component(whole "${parts}" ABSOLUTE BASE_DIR "${FOLDER}")
  else()
    set(whole "${OUT}.${count}")
    file(WRITE "${whole}" "")
    foreach(part IN LISTS parts)
      file(READ "${part}" text)
      file(APPEND "${whole}" "${text}")
    endforeach()
  endif()
  file(SHA256 "${whole}" digest)
  file(SIZE "${whole}" bytes)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," digest "${digest}")
  set(symbol "k_${FUNCTION}_${count}")
  # The assembler reads the bytes: a compiler takes seconds and gigabytes for megabytes of literals.
  string(APPEND arrays "asm(\".pushsection .rodata\\n${symbol}: .incbin \\\"${whole}\\\"\\n.popsection\");
extern const char ${symbol}[] asm(\"${symbol}\");\n")
  string(APPEND entries "    {\"${name}\", {${symbol}, ${bytes}}, {${digest}}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUT}" "// Made by cmake/embed.cmake.
#include \"core/base/embedded_file.hpp\"

namespace plumbline {
${arrays}
std::span<const EmbeddedFile> ${FUNCTION}() {
  static constexpr EmbeddedFile kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace plumbline
")
