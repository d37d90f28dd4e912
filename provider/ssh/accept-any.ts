/** The value of `connection.hostKey` that switches the check off. */
export const ACCEPT_ANY = "insecure-accept-any";
