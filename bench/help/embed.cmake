# Writes a C++ source that holds the glossary: cmake -DOUT=out.cpp -DFILE=glossary.md -P embed.cmake
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
file(WRITE ${OUT} "// Made by bench/help/embed.cmake.
#include \"bench/help/glossary_text.hpp\"

namespace plumbline {
namespace {
constexpr char kBytes[] = {${bytes}};
}  // namespace

std::string_view glossary_markdown() { return {kBytes, sizeof kBytes}; }

}  // namespace plumbline
")
