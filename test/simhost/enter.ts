/** The command line that enters a host by the pid of its PID 1, as root and with a clean environment. */
export const enter = (pid: number): string[] => [
  ...["nsenter", "-t", String(pid), "-m", "-p", "-C", "-n", "-u", "-i", "-T", "--"],
  ...["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"],
];
