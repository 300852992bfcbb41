#include "bench/commands/commands.hpp"

namespace plumbline {

bool is_quiet(const CLI::App& app) {
  const CLI::Option* quiet = app.get_option_no_throw("--quiet");
  return quiet != nullptr && quiet->count() > 0;
}

}  // namespace plumbline
