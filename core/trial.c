/* SPDX-License-Identifier: MIT
 * trial.c - opens a plugin in a forked child before this process does, see docs/decisions. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "loader.h"

/* Several GPUs without a persistence daemon take seconds each to wake up. */
#define TRIAL_SECONDS 60u

static int has_one_thread(void) {
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count == 1;
}

static void note_step(void *user, char step) {
    volatile char *shared = user;
    *shared = step;
}

static void run_child(plugin_entry *entry, char *step, int output) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGTRAP};
    const struct rlimit no_core = {0, 0};
    sigset_t all;
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        signal(faults[i], SIG_DFL);
    }
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(output, STDOUT_FILENO);
    if (quiet >= 0) {
        dup2(quiet, STDERR_FILENO);
    }
    alarm(TRIAL_SECONDS);
    loader_rehearse(entry, note_step, step);
    fflush(stdout);
    note_step(step, 'd');
    _exit(0);
}

static const char *step_name(char step) {
    switch (step) {
    case 'o':
        return "while its library was loaded (a constructor?)";
    case 'e':
        return "in its entry function";
    case 'p':
        return "in its probe";
    default:
        return "before its library was loaded";
    }
}

static void report_output(plugin_entry *entry, int output) {
    char text[121];
    ssize_t got = pread(output, text, sizeof text - 1, 0);
    if (got <= 0) {
        return;
    }
    text[got] = '\0';
    for (ssize_t i = 0; i < got; i++) {
        text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : ' ';
    }
    registry_log(entry->reg, OPREG_LOG_WARN,
                 "plugin %s prints to stdout while it is opened, where no library should: \"%s\"",
                 entry->name, text);
}

/* Waits for the child; the status of one that somebody else has reaped is 0. */
static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return 0;
        }
    }
    return status;
}

trial_result trial_run(plugin_entry *entry) {
    char *step;
    pid_t child;
    int output, status;
    trial_result result = TRIAL_NONE;
    if (!has_one_thread()) {
        return TRIAL_NONE;
    }
    step = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    output = memfd_create("opreg-trial", MFD_CLOEXEC);
    if (step == MAP_FAILED || output < 0) {
        goto out;
    }
    fflush(stdout); /* or the child would print it again */
    child = fork();
    if (child < 0) {
        goto out;
    }
    if (child == 0) {
        run_child(entry, step, output);
    }
    status = wait_for(child);
    report_output(entry, output);
    if (*step == 'd') {
        result = TRIAL_FINE;
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        fail(OPREG_E_LOAD, "plugin %s did not come back within %u s %s; it is not opened",
             entry->name, TRIAL_SECONDS, step_name(*step));
        result = TRIAL_FAILED;
    } else if (WIFSIGNALED(status)) {
        fail(OPREG_E_LOAD, "plugin %s crashed %s: signal %d, %s; it is not opened", entry->name,
             step_name(*step), WTERMSIG(status), strsignal(WTERMSIG(status)));
        result = TRIAL_FAILED;
    } else {
        fail(OPREG_E_LOAD, "plugin %s ended the process %s, with exit status %d; it is not opened",
             entry->name, step_name(*step), WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        result = TRIAL_FAILED;
    }
out:
    if (step != MAP_FAILED) {
        munmap(step, 1);
    }
    if (output >= 0) {
        close(output);
    }
    return result;
}
