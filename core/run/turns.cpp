#include "core/run/turns.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/error.hpp"

// Informs sanitizers of the stack in use.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLUMBLINE_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(PLUMBLINE_ADDRESS_SANITIZER)
#define PLUMBLINE_ADDRESS_SANITIZER
#endif
#if defined(PLUMBLINE_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
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
#if defined(__SANITIZE_THREAD__)
    notes = {__tsan_get_current_fiber(), __tsan_create_fiber(0)};
#endif
  }
  ~Contexts() {
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(notes[1]);
#endif
    munmap(memory, kStack);
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  /// `for_good`: nobody comes back to where this is called.
  void go(std::size_t to, [[maybe_unused]] bool for_good) {
    const std::size_t from = 1 - to;
#if defined(PLUMBLINE_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &notes[from], to == 1 ? memory : bottom,
                                   to == 1 ? kStack : size);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(notes[to], 0);
#endif
    swapcontext(&at[from], &at[to]);
#if defined(PLUMBLINE_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(notes[from], nullptr, nullptr);
#endif
  }
  /// First of all on the second stack.
  void arrive() {
#if defined(PLUMBLINE_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
#endif
  }

  void* memory = nullptr;
  std::array<ucontext_t, 2> at{};
  std::array<void*, 2> notes{};  // a sanitizer's, of each stack
  const void* bottom = nullptr;  // of the first stack
  std::size_t size = 0;
};

Turns::Turns() : contexts_(std::make_unique<Contexts>()) {}
Turns::~Turns() = default;

void Turns::go_to(std::size_t other) {
  current_ = other;
  contexts_->go(other, other == 0 && ended_[1]);
}

void Turns::hand_over() {
  if (!shared()) return;
  go_to(1 - current_);
  if (ending_) throw Ended();
  (*goes_on_)(current_);
}

void Turns::enter(unsigned high, unsigned low) {
  const std::uintptr_t self = (static_cast<std::uintptr_t>(high) << 32U) | low;
  reinterpret_cast<Turns*>(self)->run_second();  // NOLINT: makecontext passes ints
}

void Turns::run_second() {
  contexts_->arrive();
  try {
    if (!ending_) {
      (*goes_on_)(1);
      (*second_)();
    }
  } catch (const Ended&) {
  } catch (...) {
    error_ = std::current_exception();
    ending_ = true;
  }
  ended_[1] = true;
  go_to(0);  // for good
}

void Turns::run(const std::function<void()>& first, const std::function<void()>& second,
                const std::function<void(std::size_t)>& goes_on) {
  if (running_) throw Error("turns: a pair within a pair");
  second_ = &second;
  goes_on_ = &goes_on;
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
    goes_on(0);
    first();
  } catch (const Ended&) {
  } catch (...) {
    error_ = std::current_exception();
    ending_ = true;
  }
  ended_[0] = true;
  // Its first turn, or the rest of it.
  while (!ended_[1]) go_to(1);
  running_ = false;
  if (error_) std::rethrow_exception(error_);
}

}  // namespace plumbline
