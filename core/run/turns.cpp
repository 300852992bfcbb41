#include "core/run/turns.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace plumbline {
namespace {

constexpr std::size_t kStack = std::size_t{8}
                               << 20U;  // as a thread has; pages are taken when they are touched
constexpr std::size_t kGuard = std::size_t{64} << 10U;

/// Ends the work that is not at fault.
struct Ended {};

}  // namespace

struct Turns::Contexts {
  Contexts() {
    memory =
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw Error("mmap: no 8 MiB for the stack of an overlapped action");
    (void)mprotect(memory, kGuard, PROT_NONE);
  }
  ~Contexts() { munmap(memory, kStack); }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  void* memory = nullptr;
  std::array<ucontext_t, 2> at{};
  // Where the sanitizer's notes of each stack are, and the first one's stack.
  std::array<void*, 2> notes{};
  const void* bottom = nullptr;
  std::size_t size = 0;
};

Turns::Turns() : contexts_(std::make_unique<Contexts>()) {}
Turns::~Turns() = default;

void Turns::go_to(int other) {
  const auto to = static_cast<std::size_t>(other);
  const std::size_t from = 1 - to;
  current_ = other;
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = other == 1 ? contexts_->memory : contexts_->bottom;
  __sanitizer_start_switch_fiber(from == 1 && ended_[1] ? nullptr : &contexts_->notes[from], bottom,
                                 other == 1 ? kStack : contexts_->size);
#endif
  swapcontext(&contexts_->at[from], &contexts_->at[to]);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(contexts_->notes[from], nullptr, nullptr);
#endif
}

void Turns::hand_over() {
  if (!shared()) return;
  go_to(1 - current_);
  if (ending_) throw Ended();
}

void Turns::enter(unsigned high, unsigned low) {
  const std::uintptr_t self = (static_cast<std::uintptr_t>(high) << 32U) | low;
  reinterpret_cast<Turns*>(self)->run_second();  // NOLINT: makecontext passes ints
}

void Turns::run_second() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &contexts_->bottom, &contexts_->size);
#endif
  try {
    if (!ending_) (*second_)();
  } catch (const Ended&) {
  } catch (...) {
    error_ = std::current_exception();
    ending_ = true;
  }
  ended_[1] = true;
  go_to(0);  // for good
}

void Turns::run(const std::function<void()>& first, const std::function<void()>& second) {
  if (running_) throw Error("turns: a pair within a pair");
  second_ = &second;
  error_ = nullptr;
  ending_ = false;
  ended_[0] = ended_[1] = false;
  running_ = true;
  ucontext_t& other = contexts_->at[1];
  getcontext(&other);
  other.uc_stack.ss_sp = contexts_->memory;
  other.uc_stack.ss_size = kStack;
  other.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);  // NOLINT: makecontext takes ints
  makecontext(&other, reinterpret_cast<void (*)()>(&Turns::enter), 2, static_cast<unsigned>(self >> 32U),
              static_cast<unsigned>(self));
  try {
    first();
  } catch (const Ended&) {
  } catch (...) {
    error_ = std::current_exception();
    ending_ = true;
  }
  ended_[0] = true;
  // Its first turn, or what is left of it.
  while (!ended_[1]) go_to(1);
  running_ = false;
  if (error_) std::rethrow_exception(error_);
}

}  // namespace plumbline
