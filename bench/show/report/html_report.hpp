// The records of a matrix as one page: tables, charts and timelines, predicted next to measured. The file
// needs no network and no other file; its content policy lets nothing run but its own script.
#pragma once

#include <functional>
#include <string>

#include "bench/show/report/report_input.hpp"

namespace plumbline {

std::string html_report(const ReportInput& input);

/// html_report() of a folder that `matrix` wrote, or of a .jsonl file. Throws InputError.
std::string html_report_of(const std::string& folder_or_file,
                           const std::function<void(int done, int all)>& progress = {});

}  // namespace plumbline
