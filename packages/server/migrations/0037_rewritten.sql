-- pods from: 17
-- Replies that are written anew, and messages that are edited. The messages in whose place they stand keep their rows: `replaced` says
-- which ones belong to the conversation no more. A range of seqs is small, and a row of a session seldom has many.
alter table fleetline.sessions add column replaced int4multirange not null default '{}';
-- The messages in whose place this one stands.
alter table fleetline.messages add column replaces int4multirange;
-- For a reply that is written anew: the messages that it will replace. `cause`: the SHA-256 of the command that started the turn, without the
-- words of a message, so that a repeat of the command finds it.
alter table fleetline.turns add column replaces int4multirange, add column cause bytea;
