#include "bench/commands/help/glossary.hpp"

#include <algorithm>
#include <cctype>

#include "bench/commands/help/help_files.hpp"
#include "bench/show/text/wrap.hpp"

namespace plumbline {
namespace {

std::vector<Term> read_terms() {
  std::vector<Term> terms = read_described(embedded_text(help_files(), "glossary.md"));
  for (Term& term : terms) std::erase(term.meaning, '`');
  return terms;
}

/// Lower case, words separated by one blank.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += c == '-' || c == '_' ? ' ' : static_cast<char>(std::tolower(byte));
  }
  return result;
}

bool abbreviates(const Term& term, const std::string& words) {
  return plain(term.meaning).find("abbreviated " + words + ".") != std::string::npos;
}

}  // namespace

const std::vector<Term>& glossary() {
  static const std::vector<Term> kTerms = read_terms();
  return kTerms;
}

std::vector<Term> find_terms(std::string_view words) {
  const std::string wanted = plain(words);
  std::vector<Term> similar;
  for (const Term& term : glossary()) {
    if (plain(term.name) == wanted || abbreviates(term, wanted)) return {term};
    if (plain(term.name).find(wanted) != std::string::npos) similar.push_back(term);
  }
  return similar;
}

std::string to_text(const std::vector<Term>& terms, const TextStyle& style) {
  std::string text;
  std::string section;
  for (const Term& term : terms) {
    if (term.section != section) {
      section = term.section;
      text += (text.empty() ? "" : "\n") + emphasized(section, style) + "\n";
    }
    text += "  " + emphasized(term.name, style) + "\n" + wrapped(term.meaning, style.width, 6);
  }
  return text;
}

}  // namespace plumbline
