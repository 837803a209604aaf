"""What views of merged stacks share, whatever was recorded: places, functions, who called one and whom it called."""
