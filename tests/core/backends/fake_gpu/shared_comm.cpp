#include "tests/core/backends/fake_gpu/shared_comm.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace plumbline::fake {
namespace {

Meeting* map(const std::string& name, int flags) {
  const int file = ::shm_open(name.c_str(), flags, 0600);
  if (file < 0) throw std::runtime_error("shm_open " + name);
  if ((flags & O_CREAT) != 0 && ::ftruncate(file, sizeof(Meeting)) != 0)
    throw std::runtime_error("ftruncate");
  void* memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap " + name);
  return static_cast<Meeting*>(memory);
}

}  // namespace

std::string SharedComm::create() {
  static int number = 0;
  const std::string name = "/plumbline-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
  Meeting* meeting = new (map(name, O_CREAT | O_EXCL | O_RDWR)) Meeting;
  ::munmap(meeting, sizeof(Meeting));
  return name;
}

SharedComm::SharedComm(const std::string& name, int members, int member)
    : name_(name), members_(members), member_(member), meeting_(map(name, O_RDWR)) {
  meet();  // all ranks have it open: the name can go
  ::shm_unlink(name_.c_str());
}

SharedComm::~SharedComm() {
  ::munmap(meeting_, sizeof(Meeting));
}

bool SharedComm::meet() {
  const int round = meeting_->round;
  if (++meeting_->arrived == members_) {
    meeting_->arrived = 0;
    ++meeting_->round;
    return !aborted_;
  }
  while (meeting_->round == round) {
    if (aborted_) return false;
    ::usleep(20);
  }
  return !aborted_;
}

void SharedComm::exchange(std::size_t bytes,
                          const std::function<void(std::byte*, std::size_t, std::size_t)>& fill,
                          const std::function<void(const Meeting&, std::size_t, std::size_t)>& take) {
  for (std::size_t at = 0; at < bytes; at += kChunk) {
    const std::size_t count = std::min(kChunk, bytes - at);
    fill(meeting_->area[member_], at, count);
    if (!meet()) return;
    take(*meeting_, at, count);
    if (!meet()) return;
  }
}

bool SharedComm::put(int to, const std::byte* data, std::size_t count, std::size_t all) {
  Mailbox& box = meeting_->mail[member_][to];
  if (box.full) return false;
  box.message = all;
  std::memcpy(box.area, data, count);
  box.full = true;
  return true;
}

bool SharedComm::take(int from, std::byte* data, std::size_t count, std::size_t all) {
  Mailbox& box = meeting_->mail[from][member_];
  if (!box.full) return false;
  if (box.message != all) std::abort();
  std::memcpy(data, box.area, count);
  box.full = false;
  return true;
}

}  // namespace plumbline::fake
