// The file system of a sandbox.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/launch_files/sandbox/sandbox_inside.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

/// Mount point of the new root; every Linux has this folder, and no script of a user is in it.
constexpr const char* kBase = "/sys";
constexpr const char* kStub = "/plumbline/stub";

/// Programs that start training or other machines' work, or ask for what is not here. Others that are missing
/// are written down as well.
constexpr const char* kStubbed[] = {"torchrun",
                                    "torch-run",
                                    "python",
                                    "python3",
                                    "srun",
                                    "sbatch",
                                    "salloc",
                                    "mpirun",
                                    "mpiexec",
                                    "orterun",
                                    "prun",
                                    "deepspeed",
                                    "ds",
                                    "accelerate",
                                    "horovodrun",
                                    "composer",
                                    "swift",
                                    "megatron",
                                    "trl",
                                    "axolotl",
                                    "tune",
                                    "nemo",
                                    "ray",
                                    "docker",
                                    "podman",
                                    "apptainer",
                                    "enroot",
                                    "conda",
                                    "pip",
                                    "pip3",
                                    "uv",
                                    "wandb",
                                    "ssh",
                                    "pdsh",
                                    "git",
                                    "nvidia-smi",
                                    "rocm-smi",
                                    "scontrol",
                                    "sinfo",
                                    "singularity",
                                    "hf",
                                    "curl",
                                    "wget",
                                    "rsync",
                                    "kubectl",
                                    "gcloud",
                                    "aws",
                                    "numactl",
                                    "llamafactory-cli",
                                    "huggingface-cli"};

/// Writes words and variables down, each ended by a zero, behind their number. A script that is handed to
/// other machines is run here.
constexpr const char* kStubText =
    "#!/bin/bash -p\n"
    "mapfile -d '' variables </proc/self/environ\n"
    "printf '%s\\0' $# \"${PLUMBLINE_NAME:-${0##*/}}\" \"$@\" ${#variables[@]} \"${variables[@]}\" "
    ">>/plumbline/record/commands\n"
    "case ${0##*/} in srun | sbatch | mpirun | mpiexec)\n"
    "  for ((; $#; )); do\n"
    "    case $1 in *.sh | *.slurm | *.sbatch) [ -f \"$1\" ] && exec bash \"$@\" ;; esac\n"
    "    shift\n"
    "  done ;;\n"
    "esac\n";
constexpr const char* kFunctions =
    "command_not_found_handle() { PLUMBLINE_NAME=\"${1##*/}\" /plumbline/stub \"${@:2}\"; }\n";

struct MountAttributes {  // struct mount_attr of linux/mount.h
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;
  std::uint64_t user_namespace = 0;
};
constexpr std::uint64_t kReadOnly = 1;  // MOUNT_ATTR_RDONLY
constexpr std::uint64_t kNoSetUser = 2;
constexpr std::uint64_t kNoDevices = 4;

std::string inside(const std::string& path) {
  return kBase + path;
}

void set_attributes(const std::string& path, std::uint64_t attributes, bool all_below) {
  constexpr unsigned kRecursive = 0x8000;  // AT_RECURSIVE
  MountAttributes wanted{attributes};
  require_call(
      syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), all_below ? kRecursive : 0U, &wanted, sizeof wanted),
      "mount_setattr " + path);
}

void mount_memory(const std::string& path, const char* options) {
  require_call(mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options), "tmpfs");
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw SandboxFailure{fmt::format("{}: {}", path, error.message())};
}

void write_text(const std::string& path, const char* text, mode_t mode) {
  std::ofstream(path) << text;
  require_call(chmod(path.c_str(), mode), path);
}

/// Shows a path of the host, read-only.
void show(const std::string& path, bool required) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (required) require_call(-1, path);
    return;
  }
  const std::string target = inside(path);
  if (S_ISLNK(status.st_mode)) {
    std::error_code ignored;
    const fs::path pointed = fs::read_symlink(path, ignored);
    require_call(symlink(pointed.c_str(), target.c_str()), target);
    return;
  }
  struct stat there {};
  if (stat(target.c_str(), &there) != 0) {
    if (S_ISDIR(status.st_mode)) {
      make_folder(target);
    } else {
      make_folder(fs::path(target).parent_path().string());
      write_text(target, "", 0600);
    }
  }
  require_call(mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr), "bind " + path);
  set_attributes(target, kReadOnly | kNoSetUser | kNoDevices, true);
}

/// Shows a folder under a layer in memory, which takes what is written there; read-only where the kernel
/// does not stack them.
void show_under_layer(const std::string& path) {
  const std::string layer = inside("/plumbline/layer");
  const std::string target = inside(path);
  struct stat there {};
  if (path.find_first_of(":,\\") != std::string::npos || stat(target.c_str(), &there) == 0)
    return show(path, true);
  make_folder(layer);
  mount_memory(layer, "size=32m,nr_inodes=4096,mode=0755");
  make_folder(layer + "/upper");
  make_folder(layer + "/work");
  make_folder(target);
  const std::string options =
      fmt::format("lowerdir={},upperdir={}/upper,workdir={}/work,userxattr", path, layer, layer);
  const bool stacked =
      mount("overlay", target.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  require_call(umount2(layer.c_str(), MNT_DETACH), "umount of the layer");
  if (!stacked) show(path, true);
}

void make_devices() {
  make_folder(inside("/dev"));
  for (const char* const name : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    write_text(inside(name), "", 0600);
    require_call(mount(name, inside(name).c_str(), nullptr, MS_BIND, nullptr), name);
  }
  constexpr const char* kLinks[][2] = {{"/proc/self/fd", "/dev/fd"},
                                       {"/proc/self/fd/0", "/dev/stdin"},
                                       {"/proc/self/fd/1", "/dev/stdout"},
                                       {"/proc/self/fd/2", "/dev/stderr"}};
  for (const auto& [to, from] : kLinks) require_call(symlink(to, inside(from).c_str()), from);
}

void make_stubs() {
  make_folder(inside("/plumbline/programs"));
  make_folder(inside("/plumbline/record"));
  write_text(inside(kStub), kStubText, 0755);
  write_text(inside(kSandboxFunctions), kFunctions, 0644);
  mount_memory(inside("/plumbline/record"), "size=2m,nr_inodes=16,mode=0700");
  write_text(inside(kSandboxRecord), "", 0600);
  for (const char* const name : kStubbed)
    require_call(symlink(kStub, inside(fmt::format("/plumbline/programs/{}", name)).c_str()), name);
}

/// Puts stubs in place of the same programs by their whole path. A file of another name is several programs.
void stub_whole_paths() {
  std::error_code ignored;
  for (const std::string folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"})
    for (const char* const name : kStubbed) {
      const fs::path program = fs::canonical(folder + name, ignored);
      if (program.filename().string().starts_with(name) && fs::is_regular_file(program, ignored))
        require_call(mount(kStub, program.c_str(), nullptr, MS_BIND, nullptr), program.string());
    }
}

}  // namespace

void build_sandbox_root(const SandboxJob& job) {
  require_call(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  mount_memory(kBase, "size=4m,nr_inodes=4096,mode=0755");
  for (const char* const path : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"})
    show(path, false);
  make_folder(inside("/etc"));
  for (const char* const path : {"/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/alternatives"})
    show(path, false);
  make_devices();
  make_stubs();
  make_folder(inside("/tmp"));
  mount_memory(inside("/tmp"), "size=32m,nr_inodes=4096,mode=0755");
  make_folder(inside(kSandboxHome));
  if (job.folder.empty()) {
    show(job.script, true);
  } else {
    show_under_layer(job.folder);
  }
  make_folder(inside("/proc"));
  require_call(
      mount("proc", inside("/proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, nullptr),
      "mount of /proc");
  const std::string own = inside("/plumbline");
  require_call(mount(own.c_str(), own.c_str(), nullptr, MS_BIND | MS_REC, nullptr), own);
  set_attributes(own, kReadOnly, false);
  require_call(sethostname("localhost", 9), "host name");
  require_call(chdir(kBase), kBase);
  require_call(syscall(SYS_pivot_root, ".", "."), "pivot_root");
  require_call(umount2(".", MNT_DETACH), "umount of the old root");
  stub_whole_paths();
  require_call(chdir(job.folder.empty() ? "/" : job.folder.c_str()), job.folder);
}

}  // namespace plumbline
