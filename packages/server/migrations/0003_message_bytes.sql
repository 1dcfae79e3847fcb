-- What a body weighs as JSON, so that a page of the log is cut to size without unpacking what it leaves out.
alter table fleetline.messages
  add column bytes int generated always as (octet_length(body::text)) stored;
