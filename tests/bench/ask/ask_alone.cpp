// A program of the libraries that the Python package has, without MPI and oneDNN: it links, and answers.
#include <cstdio>
#include <string>

#include "bench/ask/answer.hpp"

int main() {
  const std::string reply = plumbline::answer(
      R"({"ask":"predict","keys":{"model":"gpt2-124m","hardware":"h100-sxm-80gb","global_batch_size":1}})");
  std::printf("%s\n", reply.c_str());
  return reply.find("\"step_s\"") == std::string::npos ? 1 : 0;
}
