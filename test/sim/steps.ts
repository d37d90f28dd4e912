/** Steps that change anything outside of the program's memory. */
const CHANGES =
  /^(mkdir|create|sync|rename|unlink|rmdir|link|write|start|SIGTERM|SIGKILL|forget|execute|lock|unlock|tool|copy|download|overwrite|second name) /;

export const isChange = (step: string) => CHANGES.test(step);
