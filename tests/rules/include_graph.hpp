// The #include lines of a source tree as a graph: between files, units (x.hpp and x.cpp) and folders
// ("rooms").
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace plumbline {

/// One #include line.
struct Include {
  std::string file;  // that it stands in, from the root of the tree
  int line = 0;
  std::string target;  // a file of the tree, or of a library its name as in library_of()
  bool found = true;   // false: a quoted file that is not in the tree
};

/// Path from the root of the tree → text.
using SourceTexts = std::map<std::string, std::string>;
/// All sources below the given folders of `root`.
SourceTexts read_sources(const std::string& root, const std::vector<std::string>& folders);
/// Without headers of the standard and of libraries that everybody may use. Quoted files are looked for from
/// the root and then from the folder of the file.
std::vector<Include> includes_of(const SourceTexts& sources);

/// "<mpi>" for mpi.h: the libraries that not every folder may use. Empty for any other header.
std::string library_of(const std::string& header);
/// "core/base/error" for core/base/error.hpp.
std::string unit_of(const std::string& file);
/// "core/base" for core/base/error.hpp, and a library for itself.
std::string room_of(const std::string& file_or_library);

using Arrows = std::map<std::string, std::set<std::string>>;
/// The arrows between the images of both ends under `name`, without those from a name to itself.
Arrows arrows_of(const std::vector<Include>& includes, std::string (*name)(const std::string&));
/// Every set of names that lead to each other, sorted.
std::vector<std::vector<std::string>> loops_in(const Arrows& arrows);

}  // namespace plumbline
