// The compiled module of the Python package: requests in, replies out.
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "bench/ask/answer.hpp"

namespace py = pybind11;

namespace {

/// Ends a search whose caller pressed Ctrl-C; Python has the exception already.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

std::string answer_interruptibly(const std::string& request) {
  bool interrupted = false;
  const auto progress = [&](int /*done*/, int /*all*/) {
    const py::gil_scoped_acquire held;
    if (PyErr_CheckSignals() == 0) return;
    interrupted = true;
    throw Interrupted();
  };
  std::string reply;
  {
    const py::gil_scoped_release others_run;
    reply = plumbline::answer(request, progress);
  }
  if (interrupted) throw py::error_already_set();
  return reply;
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "The compiled module: one function for all questions.";
  module.def("answer", &answer_interruptibly, py::arg("request"),
             "The reply to one request of `plumbline ask`, both JSON.");
  module.def(
      "ask_schema", [] { return std::string(plumbline::ask_schema()); },
      "The JSON schema of requests and replies.");
}
