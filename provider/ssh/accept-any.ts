/** The value of `connection.hostKey` that disables the check. */
export const ACCEPT_ANY = "insecure-accept-any";
