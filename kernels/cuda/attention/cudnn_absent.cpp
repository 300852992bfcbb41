// In place of cudnn_plan.cpp in builds without cudnn-frontend's or cuDNN's headers.
#include "kernels/cuda/attention/cudnn_plan.hpp"

namespace plumbline::cuda {
namespace {

std::unique_ptr<Cudnn> absent(std::string* why) {
  if (why != nullptr) *why = "built without cuDNN";
  return nullptr;
}

}  // namespace

std::unique_ptr<Cudnn> open_cudnn(int /*device*/, void* /*stream*/, std::string* why) {
  return absent(why);
}

std::unique_ptr<Cudnn> describe_cudnn(std::string_view /*device*/, int /*compute_capability*/,
                                      std::string* why) {
  return absent(why);
}

}  // namespace plumbline::cuda
