// The manual: complete, true to the command line's definition, and readable at any width.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "bench/commands/application.hpp"
#include "bench/commands/compatibility_page.hpp"
#include "bench/commands/help/command_pages.hpp"
#include "bench/commands/help/config_notes.hpp"
#include "bench/commands/help/glossary.hpp"
#include "bench/commands/help/help_files.hpp"
#include "bench/commands/help/man_page.hpp"
#include "bench/commands/help/short_page.hpp"
#include "bench/commands/help/text_page.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/config/compatibility.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline::help_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// The command line, whole.
struct Program {
  CLI::App app{"", "plumbline"};
  CommandAction action;
  Program() { add_commands(app, action); }

  std::vector<const CLI::App*> commands() const {
    return static_cast<const CLI::App&>(app).get_subcommands(
        [](const CLI::App* command) { return !command->get_group().empty(); });
  }
  std::vector<Page> pages() const {
    std::vector<Page> all = {page_of(app)};
    for (const CLI::App* command : commands()) all.push_back(page_of(*command));
    return all;
  }
};

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Words separated by single blanks: a page without its layout.
std::string squeezed(std::string_view text) {
  std::string all;
  for (const std::string& word : words_of(text)) all += (all.empty() ? "" : " ") + word;
  return all;
}

TEST(Manual, EveryCommandHasAPageWithEverythingAReaderLooksFor) {
  const Program program;
  EXPECT_EQ(program.commands().size(),
            command_pages().size() - 2);  // also the program and the configuration
  for (const Page& page : program.pages()) {
    SCOPED_TRACE(page.name);
    EXPECT_GT(page.summary.size(), 10U);
    EXPECT_NE(page.summary.back(), '.');
    ASSERT_NE(page.prose, nullptr);
    EXPECT_FALSE(page.prose->paragraphs.empty());
    EXPECT_FALSE(page.prose->examples.empty());
    EXPECT_FALSE(page.prose->exit_codes.empty());
    EXPECT_FALSE(page.prose->see_also.empty());
    const std::string text = squeezed(text_page(page, {}));
    for (const char* heading :
         {"NAME ", " SYNOPSIS ", " DESCRIPTION ", " EXAMPLES ", " EXIT CODES ", " SEE ALSO "})
      EXPECT_THAT(text, HasSubstr(heading));
    EXPECT_THAT(text, HasSubstr(squeezed(page.synopsis)));
  }
}

TEST(Manual, TheTableOfWhatGoesTogetherIsShownRowByRow) {
  for (const std::size_t width : {80U, 100U}) {
    const std::string text = compatibility_page({width, false});
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
      EXPECT_LE(rest.find('\n'), width) << rest.substr(0, rest.find('\n'));
    const std::string words = squeezed(text);
    for (const CompatibilityRow& row : compatibility_rows()) {
      EXPECT_THAT(words, HasSubstr(std::string(row.key)));
      EXPECT_THAT(words, HasSubstr(std::string(row.other.values)));
      EXPECT_THAT(words, HasSubstr(std::string(row.why)));
    }
    for (const PredictionRow& row : prediction_rows()) EXPECT_THAT(words, HasSubstr(std::string(row.needed)));
  }
}

TEST(Manual, EveryOptionIsShownWithADescription) {
  const Program program;
  int options = 0;
  std::vector<const CLI::App*> apps = program.commands();
  apps.push_back(&program.app);
  for (const CLI::App* command : apps) {
    const std::string text = squeezed(text_page(page_of(*command), {}));
    const std::string man = man_page(page_of(*command), "1");
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      SCOPED_TRACE(command->get_name() + " " + option->get_name());
      ++options;
      EXPECT_GT(option->get_description().size(), 5U);
      EXPECT_THAT(text, HasSubstr(squeezed(option->get_description())));
      EXPECT_THAT(man, HasSubstr(troff_escaped(option->get_description())));
      for (const std::string& name : option->get_lnames()) {
        EXPECT_THAT(text, HasSubstr("--" + name));
        EXPECT_THAT(man, HasSubstr("\\fB\\-\\-" + troff_escaped(name)));
      }
    }
  }
  EXPECT_GT(options, 250);
}

TEST(Manual, TheShortFormFitsAScreenAndNamesEveryOption) {
  const Program program;
  for (const Page& page : program.pages()) {
    SCOPED_TRACE(page.name);
    const std::string text = short_page(page, {});
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(kShortPageLines))
        << text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  plumbline ")) {
        EXPECT_LE(columns_of(line), 80U) << line;
      }
    }
    for (const PageGroup& group : page.groups) {
      const bool of_keys = std::any_of(config_notes().begin(), config_notes().end(),
                                       [&](const Described& note) { return note.section == group.title; });
      for (const PageOption& option : group.options) {
        const bool named =
            std::any_of(option.names.begin(), option.names.end(),
                        [&](const std::string& name) { return text.find(name) != std::string::npos; });
        EXPECT_TRUE(named || of_keys) << option.names.front();
      }
    }
    for (const PageCommand& command : page.commands)
      EXPECT_THAT(text, HasSubstr("\n  " + command.name + " "));
    EXPECT_THAT(text, HasSubstr("--help-all"));
  }
}

TEST(Manual, SynonymsLeadSomewhere) {
  for (const char* words :
       {"fsdp", "activation checkpointing", "activation recomputation", "tokens per second", "communication",
        "exposed communication", "distributed optimizer", "pipeline bubble", "exposed TP/CP/EP communication",
        "exposed DP communication"})
    EXPECT_FALSE(find_terms(words).empty()) << words;
}

TEST(Manual, EverySoftwareIsDescribed) {
  std::set<std::string> described;
  for (const Described& each : read_described(embedded_text(help_files(), "software.md"))) {
    EXPECT_GT(each.meaning.size(), 10U) << each.name;
    described.insert(each.name);
  }
  for (const auto& [name, software] : built_in_profiles().software)
    EXPECT_EQ(described.erase(name), 1U) << name;
  for (const std::string& name : inference_engine_names()) EXPECT_EQ(described.erase(name), 1U) << name;
  EXPECT_TRUE(described.empty()) << *described.begin();
}

TEST(Manual, SimulateListsTheKeysOfACostsFile) {
  std::ifstream file(PLUMBLINE_SOURCE_DIR "/analysis/simulate/costs_json.cpp");
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  const Program program;
  std::string page;
  for (const Page& each : program.pages()) {
    if (each.name == "plumbline simulate") page = text_page(each, {});
  }
  const std::regex key("\"([a-z0-9_]+_us)\"");
  int keys = 0;
  for (std::sregex_iterator at(source.begin(), source.end(), key), end; at != end; ++at, ++keys)
    EXPECT_THAT(page, HasSubstr((*at)[1].str()));
  EXPECT_GT(keys, 15);
}

TEST(Manual, EveryExampleIsACommandLineThatParses) {
  for (const CommandPage& page : command_pages()) {
    for (const Example& example : page.examples) {
      SCOPED_TRACE(example.command);
      std::vector<std::string> words = words_of(example.command);
      ASSERT_EQ(words.front(), "plumbline");
      if (!page.name.empty() && page.name != "configuration") {
        EXPECT_EQ(words[1], page.name);
      }
      words.erase(words.begin());
      std::reverse(words.begin(), words.end());  // as CLI11 wants a vector
      Program program;
      EXPECT_NO_THROW(program.app.parse(words));
      EXPECT_TRUE(program.action != nullptr);
    }
  }
}

TEST(Manual, APageIsReadAsItsFileSaysIt) {
  const CommandPage page = read_command_page(
      "# plumbline run\n\nOne paragraph\nin two lines.\n\nAnother.\n\n## Examples\n- `plumbline run a.yaml`: "
      "What it does\n\n"
      "## Files\n- CONFIG.yaml\n\n## Exit codes\n0, 4\n\n## See also\npredict, glossary\n");
  EXPECT_EQ(page.name, "run");
  EXPECT_EQ(page.paragraphs, (std::vector<std::string>{"One paragraph in two lines.", "Another."}));
  ASSERT_EQ(page.examples.size(), 1U);
  EXPECT_EQ(page.examples[0].command, "plumbline run a.yaml");
  EXPECT_EQ(page.examples[0].what, "What it does");
  ASSERT_EQ(page.files.size(), 1U);
  EXPECT_THAT(page.files[0].meaning, HasSubstr("Megatron-LM's names"));
  EXPECT_EQ(page.exit_codes, (std::vector<ExitCode>{ExitCode::done, ExitCode::rank_failed}));
  EXPECT_EQ(page.see_also, (std::vector<std::string>{"predict", "glossary"}));
}

TEST(Manual, WhatAPageFileMayNotSayIsRefused) {
  for (const char* wrong : {"plumbline run\n", "# plumbline run\n## Examples\nplumbline run\n",
                            "# plumbline run\n## Files\n- NOTHING\n", "# plumbline run\n## Exit codes\n17\n",
                            "# plumbline run\n## Bugs\nnone\n"}) {
    EXPECT_THROW(read_command_page(wrong), std::logic_error) << wrong;
  }
}

TEST(Manual, ADescribedListIsReadInOrder) {
  const std::vector<Described> list = read_described(
      "# Title\n\nWords.\n\n## First\n- **a b**: one\n  more\n- **c**: two\n## Second\n- **d**: x **y**: "
      "z\n");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].section + "|" + list[0].name + "|" + list[0].meaning, "First|a b|one more");
  EXPECT_EQ(list[1].section + "|" + list[1].name + "|" + list[1].meaning, "First|c|two");
  EXPECT_EQ(list[2].section + "|" + list[2].name + "|" + list[2].meaning, "Second|d|x **y**: z");
}

TEST(Manual, WhatAPageNamesExists) {
  const Program program;
  for (const CommandPage& page : command_pages()) {
    for (const std::string& topic : page.see_also) {
      const bool known =
          topic == "glossary" || find_command_page(topic) != nullptr || !find_terms(topic).empty();
      EXPECT_TRUE(known) << page.name << ": " << topic;
    }
  }
}

TEST(Manual, EveryConfigurationKeyHasANoteAndEveryNoteAKey) {
  for (const ConfigKey& key : config_keys()) EXPECT_NE(find_config_note(key.name), nullptr) << key.name;
  for (const Described& note : config_notes()) EXPECT_NE(find_config_key(note.name), nullptr) << note.name;
}

TEST(Manual, HelpTellsEveryKeyWithItsValuesAndDefault) {
  for (const ConfigKey& key : config_keys()) {
    for (const std::string& name : {key.name, key.flag(), key.alias}) {
      if (name.empty()) continue;
      SCOPED_TRACE(name);
      Program program;
      std::vector<std::string> words = {name, "help"};  // as CLI11 wants a vector
      program.app.parse(words);
      testing::internal::CaptureStdout();
      const int code = program.action();
      const std::string text = squeezed(testing::internal::GetCapturedStdout());
      EXPECT_EQ(code, 0);
      // A command of the same name would come first.
      EXPECT_EQ(text.find(key.name + " "), 0U) << text;
      EXPECT_THAT(text, HasSubstr("Values: " + squeezed(key.expected)));
      EXPECT_THAT(text, HasSubstr("Default: "));
      EXPECT_THAT(text, HasSubstr("--" + key.flag()));
    }
  }
}

TEST(Manual, OptionsSayTheirDefaults) {
  const Program program;
  for (const char* name : {"predict", "run", "search", "matrix", "oom"}) {
    const Page page = page_of(*program.app.get_subcommand(name));
    for (const PageGroup& group : page.groups) {
      for (const PageOption& option : group.options) {
        const auto key = std::find_if(option.names.begin(), option.names.end(), [](const std::string& each) {
          return each.starts_with("--") && find_config_key(each.substr(2)) != nullptr;
        });
        if (key == option.names.end()) continue;
        const std::string otherwise = find_config_key(key->substr(2))->print(RunConfig{});
        if (otherwise.empty()) continue;
        EXPECT_THAT(option.description, HasSubstr("default " + otherwise)) << page.name << " " << *key;
      }
    }
  }
}

TEST(Manual, FitsTheWidth) {
  const Program program;
  for (const std::size_t width : {80U, 100U}) {
    for (const Page& page : program.pages()) {
      std::istringstream lines(text_page(page, {width, false}));
      for (std::string line; std::getline(lines, line);) {
        // Lines that cannot be broken: an example, a name with its values on a line of its own, a long path.
        const bool one_piece =
            line.starts_with("  plumbline ") || line.starts_with("  -") || words_of(line).size() == 1;
        EXPECT_TRUE(one_piece || columns_of(line) <= width) << page.name << ", " << width << ": " << line;
      }
    }
  }
  EXPECT_EQ(wrapped("one two three", 9, 2), "  one two\n  three\n");
  EXPECT_EQ(wrapped("incomprehensible", 5, 2), "  incomprehensible\n");
}

TEST(Manual, TroffTakesNothingForARequest) {
  EXPECT_EQ(troff_escaped(".x\n'y\\z-"), "\\&.x\n\\&'y\\ez\\-");
  const std::set<std::string> requests = {".TH", ".SH", ".TP", ".PP", ".BR"};
  const Program program;
  for (const Page& page : program.pages()) {
    std::istringstream lines(man_page(page, "1.2.3"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(".")) {
        EXPECT_THAT(requests, Contains(line.substr(0, 3))) << line;
      }
      EXPECT_FALSE(line.starts_with("'")) << line;
    }
  }
}

TEST(Manual, ColourOnlyWhereItIsAskedFor) {
  const Program program;
  EXPECT_THAT(text_page(page_of(program.app), {80, false}), Not(HasSubstr("\033")));
  EXPECT_THAT(text_page(page_of(program.app), {80, true}), HasSubstr("\033[1mNAME\033[0m"));
}

TEST(Glossary, ExplainsTheWordsOfTheOutput) {
  EXPECT_GT(glossary().size(), 60U);
  for (const Term& term : glossary()) {
    EXPECT_FALSE(term.section.empty()) << term.name;
    EXPECT_GT(term.meaning.size(), 20U) << term.name;
    EXPECT_EQ(term.meaning.back(), '.') << term.name;
    EXPECT_THAT(term.meaning, Not(HasSubstr("**"))) << term.name;
  }
  for (const char* word : {"bubble ratio",
                           "bubble fraction",
                           "MFU",
                           "HFU",
                           "micro-batch",
                           "ZeRO stage",
                           "SP",
                           "TP",
                           "PP",
                           "DP",
                           "CP",
                           "EP",
                           "mbs",
                           "gbs",
                           "recomputation",
                           "logits",
                           "workspace",
                           "optimizer",
                           "activations",
                           "exposed",
                           "in flight",
                           "regret",
                           "MAPE",
                           "GiB",
                           "peak",
                           "critical path",
                           "cell",
                           "OOM",
                           "teacher",
                           "rank",
                           "stage",
                           "chunk"})
    EXPECT_EQ(find_terms(word).size(), 1U) << word;
  EXPECT_EQ(find_terms("zero_stage").front().name, "ZeRO stage");
  EXPECT_EQ(find_terms("Micro Batch").front().name, "micro-batch");
  EXPECT_GT(find_terms("parallelism").size(), 5U);
  EXPECT_TRUE(find_terms("nonsense").empty());
  EXPECT_THAT(to_text(find_terms("micro-batch"), {}), HasSubstr("  micro-batch\n      The sequences that"));
}

}  // namespace
}  // namespace plumbline::help_test
