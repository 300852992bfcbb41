// Presets have the published parameter counts, and are found by their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/core/config/model_texts.hpp"

namespace plumbline::presets_test {
namespace {

TEST(Presets, HaveThePublishedParameterCounts) {
  struct Case {
    const char* name;
    std::int64_t parameters;
    std::int64_t active = 0;  // 0: all
  };
  constexpr Case kCases[] = {
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},
      {"qwen2-7b", 7'615'616'512},
      {"qwen2.5-math-1.5b", 1'543'714'304},
      {"qwen2.5-math-7b", 7'615'616'512},
      {"deepseek-r1-distill-qwen-1.5b", 1'777'088'000},
      {"deepseek-r1-distill-qwen-7b", 7'615'616'512},
      {"deepseek-r1-distill-qwen-32b", 32'763'876'352},
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"deepseek-llm-7b", 6'910'365'696},
      {"gpt2-124m", 124'439'808},
      {"gpt2-1558m", 1'557'611'200},
      {"gpt3-175b", 96 * (12 * 12288LL * 12288 + 13 * 12288) + (2 + 50257 + 2048) * 12288LL},
      {"bloom-560m", 559'214'592},
      {"bloom-1b1", 1'065'314'304},
      {"bloom-1b7", 1'722'408'960},
      {"bloom-3b", 3'002'557'440},
      {"bloom-7b1", 7'069'016'064},
      {"bloom-176b", 176'247'271'424},
      {"falcon-rw-1b", 1'311'625'216},
      {"falcon-7b", 7'217'189'760},
      {"falcon-40b", 41'835'970'560},
      {"falcon-180b", 179'522'565'120},
      {"baichuan-7b", 7'000'559'616},
      {"baichuan-13b", 13'264'901'120},
      {"baichuan2-7b", 7'505'973'248},
      {"baichuan2-13b", 13'896'668'160},
      {"chatglm-6b", 6'707'929'088},
      {"glm-10b", 9'880'682'496},
      {"glm-130b", 128'697'794'560},
      {"chatglm2-6b", 6'243'584'000},
      {"glm-4-9b", 9'399'951'360},
      {"galactica-125m", 125'030'400},
      {"galactica-1.3b", 1'315'201'024},
      {"galactica-6.7b", 6'657'359'872},
      {"galactica-30b", 29'972'590'592},
      {"galactica-120b", 121'341'747'200},
      {"starcoder", 15'517'456'384},
      {"starcoderbase-3b", 3'043'311'104},
      {"starcoderbase-7b", 7'327'263'232},
      {"santacoder", 1'124'886'528},
      {"starcoder2-3b", 3'030'371'328},
      {"starcoder2-7b", 7'173'923'840},
      {"starcoder2-15b", 15'957'889'024},
      {"phi-1.5", 1'418'270'720},
      {"phi-2", 2'779'683'840},
      {"phi-3-mini-4k", 3'821'079'552},
      {"gemma-2b", 2'506'172'416},
      {"gemma-7b", 8'537'680'896},
      {"mistral-7b", 7'241'732'096},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"mixtral-8x7b", 46'702'792'704, 12'879'925'248},
      {"mixtral-8x22b", 140'620'634'112, 39'152'031'744},
      {"qwen1.5-moe-a2.7b", 14'315'784'192, 2'689'173'504},
      {"qwen2-57b-a14b", 57'408'658'944, 14'249'270'784},
      {"qwen3-30b-a3b", 30'532'122'624, 3'353'032'704},
      {"qwen3-235b-a22b", 235'093'634'560, 22'190'763'520},
      {"qwen3-vl-4b", 4'022'468'096},
      {"qwen3-vl-8b", 8'190'735'360},
      {"qwen3-vl-30b-a3b", 30'532'122'624, 3'353'032'704},
      {"qwen3-vl-235b-a22b", 235'093'634'560, 22'190'763'520},
      {"qwen2.5-vl-7b", 7'615'616'512},
      {"deepseek-v3", 671'026'419'200, 37'552'297'472},
      {"kimi-k2", 1'026'408'232'448, 32'861'500'928},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"deepseek-v2-lite", 15'706'484'224, 2'661'150'208},
      {"moonlight-16b-a3b", 15'960'110'208, 2'914'776'192},
      {"mistral-nemo-12b", 12'247'782'400},
      {"gemma-3-1b", 999'885'952},
      {"gemma-3-4b", 3'880'263'168},
      {"gemma-3-12b", 11'766'034'176},
      {"gemma-3-27b", 27'009'346'304},
      {"gpt-oss-20b", 20'914'757'184, 4'187'440'704},
      {"gpt-oss-120b", 116'829'156'672, 5'711'982'912},
      {"nemotron-3-nano-30b-a3b", 31'577'940'288, 3'580'076'352},
      {"nemotron-3-super-120b-a12b", 120'668'707'840, 12'770'237'440},
      {"nemotron-3-ultra-550b-a55b", 549'308'993'536, 56'058'843'136},
      {"gpt3-175b-mlperf", 174'615'846'912},
  };
  std::vector<std::string> names;
  for (const Case& c : kCases) {
    const ModelConfig* preset = find_preset(c.name);
    ASSERT_NE(preset, nullptr) << c.name;
    EXPECT_EQ(preset->parameters(), c.parameters) << c.name;
    EXPECT_EQ(preset->active_parameters(), c.active > 0 ? c.active : c.parameters) << c.name;
    // Heads of 256, of 128 in any model, of two parts.
    const bool wider = preset->name == "gemma-7b" || preset->norms.qk || preset->latent ||
                       preset->name == "mistral-nemo-12b" || preset->name.starts_with("gemma-3") ||
                       preset->name.starts_with("gpt-oss") || preset->hybrid;
    EXPECT_TRUE(wider || preset->hidden == preset->heads * preset->head_dim) << c.name;
    names.push_back(c.name);
  }
  EXPECT_EQ(preset_names(), names);
  EXPECT_EQ(find_preset("Qwen2.5-0.5B"), find_preset("qwen2.5-0.5b"));
  EXPECT_EQ(find_preset("qwen2.5"), nullptr);
  const std::pair<const char*, const char*> on_hub[] = {
      {"google/gemma-3-4b-it", "gemma-3-4b"},
      {"google/gemma-3-27b-pt", "gemma-3-27b"},
      {"openai/gpt-oss-120b", "gpt-oss-120b"},
      {"Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"},
      {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
      {"deepseek-ai/deepseek-llm-7b-chat", "deepseek-llm-7b"},
      {"Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b"},
      {"https://huggingface.co/meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
  };
  for (const auto& [name, preset] : on_hub) {
    ASSERT_NE(find_preset(name), nullptr) << name;
    EXPECT_EQ(find_preset(name)->name, preset);
  }
}

TEST(ResolveModel, TakesPresetFileOrFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("plumbline_resolve_model." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << test::gpt2().dump();
  EXPECT_EQ(resolve_model("gpt2-124m").hidden, 768);
  EXPECT_EQ(resolve_model(folder.string()).hidden, 48);
  EXPECT_EQ(resolve_model((folder / "config.json").string()).name, (folder / "config.json").string());
  EXPECT_THAT([] { resolve_model("qwen2.5-05b"); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("did you mean qwen2.5-0.5b?")));
  EXPECT_THROW(load_model_config(folder.string()), InputError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plumbline::presets_test
