#include "tests/rules/include_graph.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <utility>

namespace plumbline {
namespace {

namespace fs = std::filesystem;

bool is_source(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".cpp", ".hpp", ".cu", ".cuh", ".inc"};
  return kExtensions.contains(path.extension().string());
}

}  // namespace

SourceTexts read_sources(const std::string& root, const std::vector<std::string>& folders) {
  SourceTexts sources;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      sources[fs::relative(entry.path(), root).generic_string()] = text.str();
    }
  }
  return sources;
}

std::vector<Include> includes_of(const SourceTexts& sources) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  std::vector<Include> includes;
  for (const auto& [file, text] : sources) {
    std::istringstream stream(text);
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      std::smatch match;
      if (line.find("include") == std::string::npos || !std::regex_search(line, match, pattern)) continue;
      Include include{file, number, match[2], true};
      if (const std::string library = library_of(include.target); !library.empty()) {
        include.target = library;
      } else if (match[1] == "<") {
        continue;
      } else if (!sources.contains(include.target)) {
        const std::string near =
            (fs::path(file).parent_path() / include.target).lexically_normal().generic_string();
        include.found = sources.contains(near);
        if (include.found) include.target = near;
      }
      includes.push_back(std::move(include));
    }
  }
  return includes;
}

std::string library_of(const std::string& header) {
  static const std::pair<const char*, std::regex> kLibraries[] = {
      {"<mpi>", std::regex("mpi(-ext)?\\.h")},    {"<nccl>", std::regex("nccl\\w*\\.h")},
      {"<cupti>", std::regex("cupti\\w*\\.h")},   {"<nvtx>", std::regex("nvtx3/.*")},
      {"<cublas>", std::regex("cublas\\w*\\.h")}, {"<cudnn>", std::regex("cudnn\\w*\\.h")},
      {"<cuda>", std::regex("cuda\\w*\\.h")},     {"<onednn>", std::regex("(oneapi/dnnl/)?dnnl\\w*\\.hp*")},
  };
  for (const auto& [name, pattern] : kLibraries) {
    if (std::regex_match(header, pattern)) return name;
  }
  return "";
}

std::string unit_of(const std::string& file) {
  return fs::path(file).replace_extension().generic_string();
}

std::string room_of(const std::string& file_or_library) {
  if (file_or_library.starts_with('<')) return file_or_library;
  return fs::path(file_or_library).parent_path().generic_string();
}

Arrows arrows_of(const std::vector<Include>& includes, std::string (*name)(const std::string&)) {
  Arrows arrows;
  for (const Include& include : includes) {
    const std::string from = name(include.file);
    const std::string to = name(include.target);
    if (from != to) arrows[from].insert(to);
  }
  return arrows;
}

/// Tarjan's strongly connected components.
std::vector<std::vector<std::string>> loops_in(const Arrows& arrows) {
  struct Visit {
    int index = 0;
    int lowest = 0;
    bool open = true;
  };
  std::map<std::string, Visit> visits;
  std::vector<std::string> path;
  std::vector<std::vector<std::string>> loops;
  const std::function<int(const std::string&)> walk = [&](const std::string& name) {
    const int index = static_cast<int>(visits.size());
    visits[name] = {index, index, true};
    path.push_back(name);
    int lowest = index;
    const auto next = arrows.find(name);
    if (next != arrows.end()) {
      for (const std::string& to : next->second) {
        const auto known = visits.find(to);
        if (known == visits.end()) {
          lowest = std::min(lowest, walk(to));
        } else if (known->second.open) {
          lowest = std::min(lowest, known->second.index);
        }
      }
    }
    visits[name].lowest = lowest;
    if (lowest < index) return lowest;
    const auto first = std::find(path.begin(), path.end(), name);
    std::vector<std::string> together(first, path.end());
    path.erase(first, path.end());
    for (const std::string& member : together) visits[member].open = false;
    std::sort(together.begin(), together.end());
    if (together.size() > 1) loops.push_back(std::move(together));
    return lowest;
  };
  for (const auto& arrow : arrows) {
    if (!visits.contains(arrow.first)) walk(arrow.first);
  }
  return loops;
}

}  // namespace plumbline
