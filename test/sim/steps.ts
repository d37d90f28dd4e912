/** Steps that change anything outside of the program's memory, or after which others know more. */
const CHANGES =
  /^(mkdir|create|sync|rename|unlink|rmdir|link|write|start|SIGTERM|SIGKILL|forget|execute|lock|unlock|tool|copy|download|overwrite|second name|answer|hear) /;

/** Steps that never fail: a requester that has gone is no error. */
export const neverFails = (step: string) => /^(unlock|answer|hear) /.test(step);

export const isChange = (step: string) => CHANGES.test(step);
