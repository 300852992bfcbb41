// Limits of the system under which ranks start, and their folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <array>

#include "bench/processes/launch/launch_environment.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "tests/bench/processes/launch/launch_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::launch_limits_test {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

TEST(RunFolder, IsMadeWhereThereIsRoom) {
  const RunFolder memory(RunFolderUse::shared_memory, {1 << 20});
  EXPECT_THAT(memory.path(), testing::StartsWith("/dev/shm/plumbline-run-"));
  const TemporaryFolder place;
  const std::string folder = place.folder_;
  const Variable temporary("TMPDIR", folder);
  {
    const RunFolder files(RunFolderUse::files, {1 << 20});
    EXPECT_THAT(files.path(), testing::StartsWith(folder + "/plumbline-run-"));
  }
  EXPECT_THAT([] { const RunFolder none(RunFolderUse::shared_memory, {std::int64_t{1} << 59}); },
              ::testing::ThrowsMessage<OutputError>(
                  testing::AllOf(HasSubstr("expected a folder for the ranks' shared memory"),
                                 HasSubstr("/dev/shm ("), HasSubstr("MiB free"), HasSubstr("set TMPDIR"))));
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(RunFolder, IsElsewhereWhenSharedMemoryIsShort) {
  constexpr int kNotAllowed = 77;
  const int ended = in_child([] {
    // A /dev/shm of 1 MiB for this process alone, as containers have small ones.
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
      return kNotAllowed;
    }
    const RunFolder small(RunFolderUse::shared_memory, {1 << 18});
    const RunFolder large(RunFolderUse::shared_memory, {1 << 24});
    const bool moved = small.path().starts_with("/dev/shm/") && !large.path().starts_with("/dev/shm/");
    fs::remove_all(small.path());
    fs::remove_all(large.path());
    return moved ? 0 : 1;
  });
  if (ended == kNotAllowed) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(ended, 0);
}

TEST(RunFolder, IsRemovedByItsOwnerOrAfterItsOwnersDeath) {
  std::string path;
  {
    const RunFolder folder(RunFolderUse::shared_memory);
    path = folder.path();
    std::ofstream(path + "/segment") << "x";
    fs::create_directory(path + "/session");
    remove_stale_run_folders();
    EXPECT_TRUE(fs::exists(path + "/segment")) << "a live owner's folder was taken";
  }
  EXPECT_FALSE(fs::exists(path));
  in_child([] {
    const RunFolder folder(RunFolderUse::shared_memory);
    std::ofstream(folder.path() + "/segment") << "x";
    _exit(0);  // no destructor
    return 0;
  });
  EXPECT_GE(remove_stale_run_folders(), 1);
  EXPECT_EQ(remove_stale_run_folders(), 0);
}

TEST(OpenFiles, TooFewAreSaidBeforeAnythingStarts) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(in_child([] {
              // It is raised as far as allowed.
              struct rlimit limit {
                20, 64
              };
              if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
              require_open_files(2);
              if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 36) return 2;
              limit = {30, 30};
              if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
              try {
                launch(fake({"say"}));
              } catch (const Error& error) {
                return error.what() == std::string(
                                           "open files limit (ulimit -n): found 30, expected at least 36 for "
                                           "2 ranks; raise it")
                           ? 0
                           : 4;
              }
              return 5;
            }),
            0);
}

/// In a child, which `prepare` may change: the error of a launch, "" without one.
std::string error_of_launch(const std::function<void()>& prepare) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "no pipe";
  in_child([&] {
    prepare();
    std::string said;
    try {
      require_place_of_ranks();
    } catch (const Error& error) {
      said = error.what();
    }
    return write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1;
  });
  close(ends[1]);
  std::string text(4096, ' ');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

TEST(PlaceOfRanks, LimitsAreNamedBeforeAnythingStarts) {
  const auto limit_files = [](rlim_t soft, rlim_t hard) {
    struct rlimit limit {
      soft, hard
    };
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  EXPECT_EQ(error_of_launch([] {}), "");
  EXPECT_EQ(error_of_launch([&] { limit_files(100, RLIM_INFINITY); }), "") << "the soft limit is raised";
  EXPECT_EQ(error_of_launch([&] { limit_files(102400, 102400); }),
            "file size limit (ulimit -f): found 102400 bytes, expected at least 8388608 for shared memory; "
            "raise it");
  EXPECT_THAT(error_of_launch([] {
                std::string folder = "/tmp/plumbline-gone-XXXXXX";
                if (mkdtemp(folder.data()) == nullptr || chdir(folder.c_str()) != 0) _exit(9);
                rmdir(folder.c_str());
              }),
              HasSubstr("current folder: found one that is gone"));
}

TEST(PlaceOfRanks, TightLimitsAreNamedInPlaceOfOpenMpisWords) {
  const auto named_in_child = [] {
    struct rlimit few {};
    few.rlim_cur = few.rlim_max = 40;
    setrlimit(RLIMIT_NOFILE, &few);
    _exit(tight_limits() == "; tight limits: ulimit -n 40; raise them" ? 0 : 1);
  };
  EXPECT_EXIT(named_in_child(), testing::ExitedWithCode(0), "");
  LaunchResult failed;
  failed.exit_code = 1;
  failed.mpirun_output = "It looks like pmix_init failed for some reason (which may only be relevant to an\n";
  EXPECT_THAT(failed.reason(), HasSubstr("pmix_init"));
  failed.limits = "; tight limits: ulimit -u 8; raise them";
  EXPECT_EQ(failed.reason(), "mpirun ended with exit code 1; tight limits: ulimit -u 8; raise them");
}

TEST(PlaceOfRanks, WithoutSshMpirunDoesNotLookForIt) {
  const Variable path("PATH", "/nowhere");
  const auto local = local_environment();
  ASSERT_EQ(local.size(), 1U);
  EXPECT_EQ(local.front().first + "=" + local.front().second, "OMPI_MCA_plm=isolated");
}

}  // namespace
}  // namespace plumbline::launch_limits_test
