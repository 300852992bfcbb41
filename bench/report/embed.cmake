# Writes a C++ source that holds the report's style sheet and script, and their SHA-256 for the page's content policy.
#   cmake -DOUT=assets.cpp -DCSS=a.css;b.css -DJS=a.js;b.js -P embed.cmake
function(bytes_of name files)
  set(joined "${OUT}.${name}")
  file(WRITE "${joined}" "")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    file(APPEND "${joined}" "${text}")
  endforeach()
  file(SHA256 "${joined}" digest)
  file(READ "${joined}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," array "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," digest "${digest}")
  set(${name} "constexpr std::uint8_t k_${name}[] = {${array}};\nconstexpr std::uint8_t k_${name}_sha256[] = {${digest}};\n" PARENT_SCOPE)
endfunction()

bytes_of(style "${CSS}")
bytes_of(script "${JS}")
file(WRITE "${OUT}" "// Made by bench/report/embed.cmake.
#include \"bench/report/assets.hpp\"

#include <cstdint>

namespace plumbline {
namespace {
${style}${script}
std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
}  // namespace

Asset report_style() { return {text_of(k_style), k_style_sha256}; }
Asset report_script() { return {text_of(k_script), k_script_sha256}; }

}  // namespace plumbline
")
