// Files of expert routings, of a student and of its teacher.
#pragma once

#include <string>

namespace plumbline {

/// The file of an MoE teacher's routing beside the student's: "runs/r.csv" gives "runs/r.teacher.csv".
inline std::string teacher_routing_file(const std::string& file) {
  const std::size_t name = file.find_last_of('/') + 1;  // 0 without a folder
  const std::size_t dot = file.find_last_of('.');
  const bool ends = dot != std::string::npos && dot > name;
  return file.substr(0, ends ? dot : file.size()) + ".teacher" + (ends ? file.substr(dot) : "");
}

}  // namespace plumbline
