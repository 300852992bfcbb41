// The compiled module of the Python package: requests in, replies out.
#include <pybind11/pybind11.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bench/ask/answer.hpp"

namespace py = pybind11;

namespace {

/// Ends an answer whose caller pressed Ctrl-C, or whose callback raised; Python's exception is kept.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

std::string answer_interruptibly(const std::string& request, const py::object& progress) {
  std::exception_ptr raised;  // maybe on another thread, whose Python state ends with it
  const auto tell = [&](int done, int all) {
    const py::gil_scoped_acquire held;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!progress.is_none()) progress(done, all);
    } catch (const py::error_already_set&) {
      raised = std::current_exception();
      throw Interrupted();
    }
  };
  std::string reply;
  {
    const py::gil_scoped_release others_run;
    reply = plumbline::answer(request, tell);
  }
  if (raised) std::rethrow_exception(raised);
  return reply;
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "The compiled module: one function for all questions.";
  module.attr("__version__") = PLUMBLINE_PACKAGE_VERSION;  // pyproject.toml reads the same
  module.def("answer", &answer_interruptibly, py::arg("request"), py::arg("progress") = py::none(),
             "The reply to one request of `plumbline ask`, both JSON.");
  module.def(
      "ask_schema", [] { return std::string(plumbline::ask_schema()); },
      "The JSON schema of requests and replies.");
}
